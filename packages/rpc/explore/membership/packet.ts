/** @file What one worker of an explored group sends to another. */
import type { Life, View } from '../../src/protocol/membership.ts';
import type { Report } from '../../src/protocol/opinions.ts';

export type Packet =
  /** `view`: of the sender, as the store had it last, for one who knows an older one. */
  | { readonly kind: 'report'; readonly report: Report; readonly view: View | undefined }
  /** What an owner of remote values asks after a death: whoever answers has cut its session with all of `removed`. */
  | { readonly kind: 'fence'; readonly number: number; readonly removed: readonly Life[] };
