/** @file TensorFlow operations that TensorFlow.js has no kernel for, run through its Node backend: gradients, and updates in place. */
import { TensorError } from '../errors.ts';
import { limits } from '../limits.ts';
import type { DeviceUpdate } from './backend.ts';
import type { TfModule, TfTensor } from './tfjs.ts';

/** One attribute of a native operation. */
interface Attribute {
  readonly name: string;
  readonly type: number;
  readonly value: unknown;
}

/** The part of tfjs-node's backend used here; the package is optional, so its own types may be absent. */
interface NodeBackend {
  readonly binding: Readonly<
    Record<'TF_FLOAT' | 'TF_ATTR_TYPE' | 'TF_ATTR_BOOL' | 'TF_ATTR_SHAPE' | 'TF_ATTR_STRING', number>
  >;
  executeSingleOutput(op: string, attrs: readonly Attribute[], inputs: readonly TfTensor[]): TfTensor;
  executeMultipleOutputs(
    op: string,
    attrs: readonly Attribute[],
    inputs: readonly TfTensor[],
    count: number,
  ): TfTensor[];
}

/** Native operations on float32 tensors. Results belong to the caller. */
export class NativeOps {
  private readonly tf: TfModule;
  private readonly backend: NodeBackend;
  private readonly scalars = new Map<number, TfTensor>();
  /** Variables that a tensor is put into while it is changed in place, by position of the argument. */
  private readonly variables: TfTensor[] = [];
  private nothing: TfTensor | undefined;

  constructor(tf: TfModule) {
    this.tf = tf;
    this.backend = tf.backend() as unknown as NodeBackend;
  }

  /** `dy` where `y` is above zero. */
  reluGrad(dy: TfTensor, y: TfTensor): TfTensor {
    return this.run('ReluGrad', [dy, y]);
  }

  /** The same bytes in memory that nothing else reads. */
  deepCopy(x: TfTensor): TfTensor {
    return this.run('DeepCopy', [x]);
  }

  /**
   * Runs an update on `targets`, which are disposed: their memory comes back, changed, in the tensors answered. Also when the kernel
   * fails: `failed` is then set to its error.
   */
  update(
    update: DeviceUpdate,
    targets: readonly TfTensor[],
    gradient: TfTensor,
  ): { tensors: TfTensor[]; failed?: unknown } {
    const { scalars, gradientAt, penalty, shrink } = update;
    const [parameter] = targets as [TfTensor];
    const temporary: TfTensor[] = [];
    const made = (t: TfTensor): TfTensor => {
      temporary.push(t);
      return t;
    };
    let pull = gradient;
    if (penalty !== 0)
      pull = made(this.run('AddV2', [gradient, made(this.run('Mul', [parameter, this.scalar(penalty)]))]));
    const start = shrink === 1 ? parameter : made(this.run('Mul', [parameter, this.scalar(shrink)]));
    const variables = targets.map((t, i) => {
      const variable = this.variable(i);
      this.assign(variable, i === 0 ? start : t);
      return variable;
    });
    // A variable changes in place what it alone refers to.
    for (const t of targets) t.dispose();
    for (const t of temporary) if (t !== pull) t.dispose();
    const args: TfTensor[] = scalars.map((value) => this.scalar(value));
    args.splice(gradientAt, 0, pull);
    const result: { tensors: TfTensor[]; failed?: unknown } = { tensors: [] };
    try {
      this.backend.executeMultipleOutputs(update.kernel, this.attributes(update.flags), [...variables, ...args], 0);
    } catch (error) {
      result.failed = error;
    }
    if (pull !== gradient) pull.dispose();
    for (const variable of variables) {
      result.tensors.push(
        this.keep(this.backend.executeSingleOutput('ReadVariableOp', this.typed('dtype'), [variable])),
      );
      this.assign(variable, (this.nothing ??= this.keep(this.tf.scalar(0))));
    }
    return result;
  }

  private run(op: string, inputs: readonly TfTensor[]): TfTensor {
    return this.keep(this.backend.executeSingleOutput(op, this.typed('T'), inputs));
  }

  private typed(name: 'T' | 'dtype'): Attribute[] {
    const { binding } = this.backend;
    return [{ name, type: binding.TF_ATTR_TYPE, value: binding.TF_FLOAT }];
  }

  private attributes(flags: Readonly<Record<string, boolean>> = {}): Attribute[] {
    const type = this.backend.binding.TF_ATTR_BOOL;
    return [...this.typed('T'), ...Object.entries(flags).map(([name, value]) => ({ name, type, value }))];
  }

  private assign(variable: TfTensor, value: TfTensor): void {
    this.backend.executeMultipleOutputs('AssignVariableOp', this.typed('dtype'), [variable, value], 0);
  }

  private variable(i: number): TfTensor {
    const { binding } = this.backend;
    return (this.variables[i] ??= this.keep(
      this.backend.executeSingleOutput(
        'VarHandleOp',
        [
          ...this.typed('dtype'),
          { name: 'shape', type: binding.TF_ATTR_SHAPE, value: [] },
          { name: 'container', type: binding.TF_ATTR_STRING, value: '' },
          { name: 'shared_name', type: binding.TF_ATTR_STRING, value: `backwire_update_${i}` },
        ],
        [],
      ),
    ));
  }

  /** Rates and decays come back every step: as tensors they are kept, the latest ones. */
  private scalar(value: number): TfTensor {
    const known = this.scalars.get(value);
    if (known !== undefined) return known;
    if (this.scalars.size >= limits.nativeScalars) {
      const [oldest] = this.scalars.entries();
      if (oldest === undefined) throw new TensorError('no scalar to forget');
      oldest[1].dispose();
      this.scalars.delete(oldest[0]);
    }
    const made = this.keep(this.tf.scalar(value, 'float32'));
    this.scalars.set(value, made);
    return made;
  }

  /** Takes a tensor out of whatever `tidy` the program may be in. */
  private keep(t: TfTensor): TfTensor {
    return this.tf.keep(t);
  }
}
