/** @file What PyTorch's test modules keep in globals, of the one test that runs. */
import type { RRef } from '@backwire/rref';
import { ones, type Tensor } from '@backwire/tensor';

/** A value that is set once and waited for. */
export class Slot<T> {
  readonly value: Promise<T>;
  set: (value: T) => void = () => undefined;

  constructor() {
    this.value = new Promise((resolve) => {
      this.set = resolve;
    });
  }
}

class State {
  readonly value = new Slot<unknown>();
  readonly done = new Slot<unknown>();
  readonly timedOut = new Slot<undefined>();
  barrierCount = 0;
  rref: RRef<unknown> | undefined;
  /** By distance of ranks: whether that rank has said that its calls are done, and in which context. */
  readonly rpcDone = [0, 1, 2, 3].map(() => new Slot<undefined>());
  readonly contexts: bigint[] = [-1n, -1n, -1n, -1n];
  readonly known = new Set<bigint>();
  readonly requiresGrad: Tensor = ones([3, 3], { requiresGrad: true });
  failsInBackward = true;
  /** Functions that this rank has no more. */
  readonly withdrawn = new Set<string>();
}

let current = new State();

export function state(): State {
  return current;
}

/** Begins with the next test. */
export function forget(): void {
  current = new State();
}
