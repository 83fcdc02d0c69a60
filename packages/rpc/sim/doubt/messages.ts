/** @file What the members of a simulated group in doubt, and its store, say to each other. */
import type { Life, View } from '../../src/protocol/membership.ts';
import type { Report } from '../../src/protocol/opinions.ts';
import type { Claim } from '../../src/protocol/parts.ts';

/** The node that keeps the store. */
export const STORE = 'store';

export type StoreRequest =
  | { readonly op: 'incarnation' }
  /** Takes or renews the lease; the answer is the view. */
  | { readonly op: 'renew'; readonly life: Life }
  | { readonly op: 'view' }
  | { readonly op: 'lease-of'; readonly life: Life }
  | { readonly op: 'change'; readonly before: View; readonly next: View }
  /** The answer is all claims. */
  | { readonly op: 'claim'; readonly life: Life; readonly claim: Claim | undefined }
  | { readonly op: 'claims' };

export type StoreReply = number | boolean | View | readonly Claim[];

export type DoubtMessage =
  | { readonly kind: 'ask'; readonly id: number; readonly request: StoreRequest }
  | { readonly kind: 'answer'; readonly id: number; readonly reply: StoreReply }
  /** With the epoch of the view that the sender knows. */
  | { readonly kind: 'ping'; readonly from: Life; readonly to: Life; readonly epoch: number }
  /** `refused`: the sender knows a view as new, in which the receiver is none of its members. */
  | { readonly kind: 'pong' | 'refused'; readonly from: Life; readonly to: Life }
  /** `seq` counts up per pair: what is overtaken is void, as each report says all that its sender knows. */
  | {
      readonly kind: 'report';
      readonly from: Life;
      readonly to: Life;
      readonly seq: number;
      readonly report: Report;
      readonly view: View | undefined;
    };
