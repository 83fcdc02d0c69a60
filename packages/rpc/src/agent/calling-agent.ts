/** @file The part of an agent that programs' calls use. Another implementation of it joins groups that speak another protocol. */
import type { RpcAgent } from '../base/rpc-agent.ts';
import type { CallOptions } from '../base/options.ts';
import type { Answer, CallForm } from '../client/pending-call.ts';
import type { Served } from '../base/served.ts';
import type { To, WorkerInfo } from '../base/worker-info.ts';

/** Another member, as far as its calls go; this worker itself is one, too. */
interface CallPeer {
  readonly worker: WorkerInfo;
}

export interface CallMembers {
  /** @throws RpcError 'not-found', or 'peer-died' or 'unavailable' for one that was a member. */
  find(to: To): CallPeer;
  /** All but this worker. */
  others(): readonly CallPeer[];
}

/** What follows an outgoing call. */
interface OpenCall {
  readonly id: number;
}

export interface CallMaker {
  /** The time of calls that say nothing, in milliseconds; 0 = none. */
  defaultTimeoutMs: number;
  /** Never throws: what fails here goes to the answer too. */
  call(
    peer: CallPeer,
    name: string,
    args: readonly unknown[],
    options: CallOptions | undefined,
    form: CallForm,
    answer: Answer,
  ): OpenCall | undefined;
  /** @throws what keeps it from being sent. */
  oneway(peer: CallPeer, name: string, args: readonly unknown[], options: CallOptions | undefined): void;
}

type Meeting = CallOptions & { readonly workers?: readonly string[] | undefined };

export interface CallCollectives {
  gather<T>(value: T, options: Meeting): Promise<Map<string, T>>;
  barrier(options: Meeting): Promise<void>;
}

export interface CallingAgent extends RpcAgent {
  readonly isClosed: boolean;
  readonly self: WorkerInfo;
  readonly caller: CallMaker;
  readonly members: CallMembers;
  readonly collectives: CallCollectives;
  /** What calls may name here. */
  readonly names: Served;
}
