/** @file Activation checkpointing: what a function saves for the backward pass is not kept, but made again by a second run of the function. */
import { checkArguments } from '../../arguments.ts';
import { ambient, runWith } from '../../ambient.ts';
import { autocastAs } from '../../autocast.ts';
import { AutogradError } from '../../errors.ts';
import { randomState, setRandomState } from '../../random.ts';
import { scope, untracked, unswept } from '../../scope.ts';
import { sameShape } from '../../shape.ts';
import { Tensor } from '../../tensor.ts';
import { Kept, SavedTensor, savingWith, type Remade, type Saver } from '../record.ts';

/** What a value that is to be made again looked like. */
interface Outline {
  readonly dtype: string;
  readonly shape: readonly number[];
}

/** The second run: keeps what is saved, in order. */
class Rerun implements Saver {
  readonly values: Kept[] = [];

  save(tensor: Tensor, functionName: string): Remade {
    this.values.push(new Kept(tensor, functionName, false));
    // The graph of the second run is thrown away.
    return { value: insideOut, release: () => undefined };
  }
}

function insideOut(): never {
  throw new AutogradError(
    'checkpoint: the function runs a backward pass over what it computes; compute gradients outside of it',
  );
}

/** One call of a checkpointed function. */
class Checkpoint implements Saver {
  private readonly outlines: Outline[] = [];
  private readonly again: () => unknown;
  /** Lets the inputs go. */
  readonly letGo: () => void;
  private readonly random = randomState();
  private readonly surroundings = { gradMode: true, anomaly: ambient().anomaly };
  private readonly precision = ambient().autocast;
  private complete = false;
  /** Saved values that the graph has not let go of. */
  private wanted = 0;
  private remade: (Kept | undefined)[] | undefined;
  /** For the values handed out, which belong to this. */
  private readonly handles = new Map<number, Tensor>();

  constructor(fn: (...inputs: never[]) => unknown, inputs: readonly unknown[]) {
    const saved = inputs.map((one) =>
      one instanceof Tensor ? new SavedTensor(one as Tensor, 'checkpoint', false) : one,
    );
    this.again = () => fn(...(saved.map((one) => (one instanceof SavedTensor ? one.unpack() : one)) as never[]));
    this.letGo = () => {
      for (const one of saved) if (one instanceof SavedTensor) one.release();
    };
  }

  save({ dtype, shape }: Tensor): Remade {
    const at = this.outlines.push({ dtype, shape: [...shape] }) - 1;
    this.wanted++;
    let held = true;
    return {
      value: () => this.value(at),
      release: () => {
        if (!held) return;
        held = false;
        this.drop(at);
      },
    };
  }

  /** The function has returned: the values may be asked for. */
  end(): void {
    this.complete = true;
    if (this.wanted === 0) this.letGo();
  }

  private value(at: number): Tensor {
    if (!this.complete) insideOut();
    const known = this.handles.get(at);
    if (known !== undefined) return known;
    const values = (this.remade ??= this.rerun());
    const handle = untracked(() => (values[at] as Kept).handle());
    this.handles.set(at, handle);
    return handle;
  }

  private drop(at: number): void {
    this.handles.get(at)?.release();
    this.handles.delete(at);
    this.remade?.[at]?.release();
    if (this.remade !== undefined) this.remade[at] = undefined;
    if (--this.wanted === 0 && this.complete) this.letGo();
  }

  private rerun(): Kept[] {
    const rerun = new Rerun();
    const before = randomState();
    setRandomState(this.random);
    try {
      unswept(() =>
        runWith(this.surroundings, () =>
          savingWith(rerun, () =>
            scope(() => {
              autocastAs(this.precision, this.again);
            }),
          ),
        ),
      );
      this.compare(rerun.values);
      return rerun.values;
    } catch (error) {
      for (const value of rerun.values) value.release();
      throw error;
    } finally {
      setRandomState(before);
    }
  }

  private compare(values: readonly Kept[]): void {
    const { outlines } = this;
    if (values.length !== outlines.length)
      throw new AutogradError(
        `checkpoint: the function saved ${outlines.length} tensors for the backward pass when it ran first and ${values.length} when it ran again; it must do the same both times`,
      );
    values.forEach(({ outline: now }, i) => {
      const { dtype, shape } = outlines[i] as Outline;
      if (now.dtype !== dtype || !sameShape(now.shape, shape))
        throw new AutogradError(
          `checkpoint: saved tensor ${i} was ${dtype} [${shape.join(', ')}] when the function ran first and ${now.dtype} [${now.shape.join(', ')}] when it ran again; it must do the same both times`,
        );
    });
  }
}

/**
 * `fn(...inputs)`, of which the backward pass keeps the inputs only: the first gradient that needs more runs `fn` again, with the random
 * numbers of the first run. As PyTorch's `checkpoint(fn, *inputs, use_reentrant=False)`. `fn` is synchronous and does the same both
 * times; it runs in a `scope`, so that what it makes and does not return is freed at its end. Gradients are those without it, to the bit.
 * @param fn the part of the model; synchronous
 * @param inputs its arguments
 * @throws TypeError where `fn` returns a promise; AutogradError in the backward pass where `fn` does something else the second time.
 * @example
 * ```ts
 * const block = new nn.Sequential(new nn.Linear(4, 4), new nn.Tanh());
 * const x = randn([2, 4], { requiresGrad: true });
 * checkpoint((h: Tensor) => block.forward(h), x)
 *   .sum()
 *   .backward(); // runs the block again
 * console.log(x.grad?.shape); // [ 2, 4 ]
 * ```
 */
export function checkpoint<A extends unknown[], R>(fn: (...inputs: A) => R, ...inputs: A): R {
  checkArguments('checkpoint', [fn]);
  if (!ambient().gradMode) return fn(...inputs);
  const own = new Checkpoint(fn, inputs);
  try {
    const result = savingWith(own, () => scope(() => synchronous(fn(...inputs))));
    own.end();
    return result;
  } catch (error) {
    own.letGo();
    throw error;
  }
}

/** What follows the first `await` would be saved as usual, and missing from the second run. */
function synchronous<R>(result: R): R {
  if (!(result instanceof Promise)) return result;
  // Whether it fails later does not matter: the caller gets the error below.
  result.catch(() => undefined);
  throw new TypeError('checkpoint: the function must be synchronous, but it returned a promise');
}
