/** @file What simulated members, and the store, say to each other. */
import type { Wish } from '../../src/protocol/admission.ts';
import type { View } from '../../src/protocol/membership.ts';

/** The node that keeps the store. */
export const STORE = 'store';

/** One life of a worker: 'w3#17'. */
export type Life = string;

export type StoreRequest =
  | { readonly op: 'incarnation'; readonly name: string }
  | { readonly op: 'lease'; readonly life: Life }
  | { readonly op: 'renew'; readonly life: Life }
  | { readonly op: 'revoke'; readonly life: Life }
  | { readonly op: 'lease-of'; readonly life: Life }
  | { readonly op: 'view' }
  /** Writes down a wish, under the lease of its life. */
  | { readonly op: 'wish'; readonly life: Life; readonly wish: Wish }
  /** Whether the wish of a life is still there. */
  | { readonly op: 'wished'; readonly life: Life }
  | { readonly op: 'wishes' }
  | { readonly op: 'answer'; readonly lives: readonly Life[] }
  | { readonly op: 'take-door' | 'leave-door'; readonly life: Life }
  | { readonly op: 'change'; readonly before: View; readonly next: View };

/** A view, a number, whether it worked, or all wishes. */
export type StoreReply = View | number | boolean | ReadonlyMap<Life, Wish>;

export type SimMessage =
  | { readonly kind: 'ask'; readonly id: number; readonly request: StoreRequest }
  | { readonly kind: 'answer'; readonly id: number; readonly reply: StoreReply }
  /** The store pushes the newest view. */
  | { readonly kind: 'news'; readonly view: View }
  | { readonly kind: 'ping' | 'pong' | 'dial' | 'dialled'; readonly from: Life; readonly to: Life }
  | { readonly kind: 'arrive'; readonly from: Life; readonly to: Life; readonly key: string; readonly call: number }
  | { readonly kind: 'withdraw'; readonly from: Life; readonly to: Life; readonly call: number }
  | { readonly kind: 'outcome'; readonly from: Life; readonly to: Life; readonly call: number; readonly ok: boolean };

export function lifeOf(member: { readonly name: string; readonly incarnation: number }): Life {
  return `${member.name}#${member.incarnation}`;
}

export function isView(reply: StoreReply | undefined): reply is View {
  return typeof reply === 'object' && 'epoch' in reply;
}
