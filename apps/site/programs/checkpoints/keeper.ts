import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  decodeValue,
  distAutograd,
  encodeValue,
  manualSeed,
  nn,
  optim,
  rpcClass,
  rpcName,
  saveSafetensors,
  wireDeserialize,
  wireSerialize,
  type Tensor,
} from 'backwire';

interface Checkpoint {
  readonly step: number;
  readonly weights: Map<string, Tensor>;
  readonly optimizer: optim.OptimizerState;
  readonly schedule: Record<string, unknown>;
}

/** The model, its optimiser and its learning-rate schedule, on the worker that owns them and saves them. */
export class Keeper {
  static readonly [rpcName] = 'checkpoints/Keeper';
  readonly #net: nn.Sequential<[nn.Linear, nn.Tanh, nn.Linear]>;
  readonly #optimizer: optim.Adam;
  readonly #schedule: optim.lrScheduler.StepLR;
  readonly #folder: string;

  constructor(folder: string) {
    manualSeed(0);
    this.#net = new nn.Sequential(new nn.Linear(4, 16), new nn.Tanh(), new nn.Linear(16, 1));
    this.#optimizer = new optim.Adam(this.#net.parameters(), { lr: 0.01 });
    this.#schedule = new optim.lrScheduler.StepLR(this.#optimizer, 120, { gamma: 0.5 });
    this.#folder = folder;
  }

  forward(x: Tensor): Tensor {
    return this.#net.forward(x);
  }

  /** Steps the parameters with the gradients that they have in a context, and then the schedule. */
  step(contextId: bigint): void {
    const gradients = distAutograd.getGradients(contextId);
    this.#optimizer.step(this.#net.parameters().map((parameter) => gradients.get(parameter) ?? null));
    this.#schedule.step();
  }

  /** Saves everything that the next life needs. */
  async save(step: number): Promise<void> {
    const checkpoint: Checkpoint = {
      step,
      weights: this.#net.stateDict(),
      optimizer: this.#optimizer.stateDict(),
      schedule: this.#schedule.stateDict(),
    };
    const { bytes, tensors } = encodeValue(checkpoint);
    // Both copy the values as they are now: a step that is made while a file is written does not show in it.
    const all = wireSerialize(bytes, tensors);
    const weights = saveSafetensors(checkpoint.weights); // for other programs, PyTorch's too
    await this.#write('checkpoint', all);
    await this.#write('weights.safetensors', weights);
  }

  /** Goes on from what was saved last; answers its step, or 0 where nothing was. */
  async load(): Promise<number> {
    let file: Uint8Array;
    try {
      file = await readFile(join(this.#folder, 'checkpoint'));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0;
      throw error;
    }
    const { payload, tensors } = wireDeserialize(file);
    const { step, weights, optimizer, schedule } = decodeValue(payload, tensors) as Checkpoint;
    this.#net.loadStateDict(weights);
    this.#optimizer.loadStateDict(optimizer);
    this.#schedule.loadStateDict(schedule);
    return step;
  }

  /** A file is the old one or the new one, never half of it. */
  async #write(name: string, bytes: Uint8Array): Promise<void> {
    const file = join(this.#folder, name);
    await mkdir(this.#folder, { recursive: true });
    await writeFile(`${file}.new`, bytes);
    await rename(`${file}.new`, file);
  }
}
rpcClass(Keeper, { methods: ['forward', 'step', 'save', 'load'] });
