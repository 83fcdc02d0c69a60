/** @file What workers tell each other about RRefs, as plain data. All of it is exactly once and FIFO for each ordered pair of live members. */
import type { GlobalId, MemberKey } from './ids.ts';

/** Why the creation of an RRef, or the registration of a fork, failed; travels in messages and ends up in errors. */
export interface Failure {
  /** An RpcErrorCode. */
  readonly code: string;
  readonly text: string;
}

/** Control messages: one way, never part of a call. */
export type Control =
  /** User to owner: I hold this fork; register it. */
  | { readonly kind: 'fork-request'; readonly rref: GlobalId; readonly fork: GlobalId }
  /** Owner to user: it is registered; or it is not, and why. */
  | { readonly kind: 'fork-ack'; readonly fork: GlobalId; readonly refused: Failure | undefined }
  /** Child to parent: the owner knows me; you may go. */
  | { readonly kind: 'child-accept'; readonly fork: GlobalId }
  /** User to owner: I let go of these. */
  | { readonly kind: 'user-delete'; readonly forks: readonly GlobalId[] }
  /** Creator to owner: the call that creates this RRef failed. It counts as the creation if that never arrived. */
  | { readonly kind: 'create-failed'; readonly rref: GlobalId; readonly fork: GlobalId; readonly failure: Failure }
  /** Owner to every member: when you have seen this epoch, and nothing of these dead can reach you any more, say so. */
  | { readonly kind: 'fence'; readonly epoch: number; readonly dead: readonly MemberKey[] }
  /** Member to owner: everything that the dead ever sent me has been told to you. */
  | { readonly kind: 'fence-ack'; readonly epoch: number }
  /** Owner to every member: what these dead held of mine is released. */
  | { readonly kind: 'fence-done'; readonly dead: readonly MemberKey[] };

/** Entries of a message's header table: processed when the message is delivered, whatever becomes of the call. */
export type Carried =
  /** With a remote call: its RRef and the creator's fork exist from now on. Both ids are the sender's. */
  | { readonly kind: 'create'; readonly rref: GlobalId; readonly fork: GlobalId }
  /** A handle inside arguments or results; the sender is the parent and drew the fork id. */
  | { readonly kind: 'fork'; readonly rref: GlobalId; readonly owner: MemberKey; readonly fork: GlobalId };
