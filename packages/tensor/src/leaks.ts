/** @file Finds tensors that a piece of a program made and still holds, by the place that made them. */
import { checkFunction } from './given.ts';
import { collectGarbage } from './device-memory.ts';
import { isOwnFrame } from './here.ts';
import { watchCreation } from './scope.ts';
import { tensorsIn, type Tensor } from './tensor.ts';

/** Tensors made at one place that are still held. */
export interface Leak {
  /** How many. */
  readonly count: number;
  /** The bytes of their storages; storages that several of them view count once. */
  readonly bytes: number;
  /** One of them: its dtype and shape. */
  readonly example: string;
  /** Where they were made, innermost call first. */
  readonly stack: string;
}

/** What `findLeaks` found: the result of the function, and the tensors it left behind. */
export interface LeakReport<T> {
  readonly value: T;
  /** Largest first; empty when all is gone. */
  readonly leaks: readonly Leak[];
  /** All of it as text, for people. */
  toString(): string;
}

/**
 * Runs `fn`, collects garbage, and reports every tensor made meanwhile that is neither in what `fn` returned, nor disposed, nor
 * unreachable: what the program still holds. Parameters, gradients and optimiser state made inside count too. Everything the process
 * makes meanwhile is watched, also by other tasks. Slow: each tensor remembers its stack. Without a way to collect garbage (browsers)
 * unreachable tensors are reported as well.
 */
export async function findLeaks<T>(fn: () => T | Promise<T>): Promise<LeakReport<T>> {
  checkFunction('findLeaks', fn);
  const made: { ref: WeakRef<Tensor>; stack: string }[] = [];
  const unwatch = watchCreation((t) => made.push({ ref: new WeakRef(t as Tensor), stack: stackHere() }));
  let value: T;
  try {
    value = await fn();
  } finally {
    unwatch();
  }
  // Weak references hold on until the turn ends, and finalisers run between turns.
  for (let turn = 0; turn < 3; turn++) {
    await new Promise<void>((resolve) => setTimeout(resolve, 0));
    collectGarbage();
  }
  const returned = tensorsIn(value);
  const leaks = group(
    made.flatMap(({ ref, stack }) => {
      const t = ref.deref();
      return t === undefined || t.disposed || returned.has(t) ? [] : [{ t, stack }];
    }),
  );
  return { value, leaks, toString: () => describe(leaks) };
}

function group(held: readonly { t: Tensor; stack: string }[]): Leak[] {
  const seen = new Set<object>();
  const byStack = new Map<string, { count: number; bytes: number; example: string; stack: string }>();
  for (const { t, stack } of held) {
    const entry = byStack.get(stack) ?? { count: 0, bytes: 0, example: `${t.dtype} [${t.shape.join(', ')}]`, stack };
    entry.count++;
    if (!seen.has(t.storage)) entry.bytes += t.storage.nbytes;
    seen.add(t.storage);
    byStack.set(stack, entry);
  }
  return [...byStack.values()].sort((a, b) => b.bytes - a.bytes || b.count - a.count);
}

function describe(leaks: readonly Leak[]): string {
  if (leaks.length === 0) return 'no tensors leaked';
  const total = leaks.reduce((n, l) => n + l.count, 0);
  const parts = leaks.map((l) => `${l.count} of ${l.bytes} bytes, such as ${l.example}, made at\n${l.stack}`);
  return `${total} tensors leaked\n${parts.join('\n')}`;
}

/** The calling program's place: this package's own frames above it are left out. */
function stackHere(): string {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 24;
  const lines = (new Error('made here').stack ?? '').split('\n').slice(1);
  Error.stackTraceLimit = limit;
  const first = lines.findIndex((line) => !isOwnFrame(line));
  return lines.slice(Math.max(0, first), Math.max(0, first) + 6).join('\n');
}
