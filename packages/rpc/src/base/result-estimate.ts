/** @file How large the result of a builtin will be, from its arguments alone: a peer may ask for gigabytes with a few kilobytes. */
import { broadcast, multiply, RULES, widest } from './result-rules.ts';

/** A recurrent layer has this many matrices of its sizes. */
const GATES = 4;
const FLOAT_BYTES = 4;

/**
 * Bytes that the result of an operation covers, at most; `name` is the operation's ('aten::outer'), or that of a method of tensors ('outer')
 * whose tensor comes first. What it computes on the way to a smaller result does not count. Arguments that the operation itself refuses
 * give anything.
 */
export function estimateResult(name: string, args: readonly unknown[]): number {
  const rule = RULES.get(name.startsWith('aten::') ? name.slice('aten::'.length) : underscored(name)) ?? broadcast;
  return rule(args) * widest(args);
}

/** Bytes of what a builtin class makes with these arguments, at most: its sizes multiplied, whatever they are sizes of. */
export function estimateInstance(args: readonly unknown[]): number {
  const sizes = args.flatMap((arg): unknown[] => (Array.isArray(arg) ? arg : [arg]));
  return multiply(sizes.filter((size) => typeof size === 'number' && size > 1) as number[]) * FLOAT_BYTES * GATES;
}

/** 'indexSelect' is 'index_select'. */
function underscored(method: string): string {
  return method.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
