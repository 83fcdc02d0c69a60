/** @file Which send functions gradients come to in the end: known from the graph when a message leaves, so that a pass can be planned. */
import type { Node } from '@backwire/tensor/internal';
import { MAX_REACH } from '@backwire/wire/internal';
import { MAX_REACH_WALK } from '../limits.ts';
import { addTarget } from '../protocol/plan.ts';
import type { Target } from '../protocol/pass-types.ts';
import { RecvRpcBackward } from './functions.ts';

/**
 * The send functions on whichever workers that a pass through `start` reaches. A graph does not change once it is recorded, so this
 * holds for good. Undefined when that takes too long to find out, is too much to tell, or some peer did not tell its part: then a pass has
 * to ask.
 */
export function reachOf(start: Node, contextId: bigint): readonly Target[] | undefined {
  const found: Target[] = [];
  const seen = new Set<Node>();
  const pending = [start];
  for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
    if (seen.has(node)) continue;
    seen.add(node);
    if (seen.size > MAX_REACH_WALK) return undefined;
    if (node instanceof RecvRpcBackward) {
      if (node.contextId !== contextId || node.reach === undefined) return undefined;
      addTarget(found, { to: node.from, message: node.messageId });
      for (const target of node.reach) addTarget(found, target);
      if (found.length > MAX_REACH) return undefined;
    }
    for (const edge of node.nextEdges) if (edge !== null) pending.push(edge.node);
  }
  return found;
}
