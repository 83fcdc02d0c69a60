/** @file A TensorFlow.js layers model as a module: its weights are parameters, its code is differentiated by TensorFlow.js. */
import { noGrad } from '../autograd/record.ts';
import { tf, type TfTensor } from '../backends/tfjs.ts';
import { TensorError } from '../errors.ts';
import { fromTf, lift, toTf } from '../interop.ts';
import { randint } from '../random.ts';
import { Parameter, type Tensor } from '../tensor.ts';
import { Module } from './module.ts';

/** A weight of a layers model: what `LayerVariable` of @tensorflow/tfjs-layers offers. */
export interface LayersWeight {
  readonly name: string;
  read(): TfTensor;
  write(value: TfTensor): unknown;
}

/** What is used of a `LayersModel` of @tensorflow/tfjs-layers, which this package does not load: the program has. */
export interface LayersModelLike {
  readonly trainableWeights: readonly LayersWeight[];
  readonly nonTrainableWeights: readonly LayersWeight[];
  readonly layers: readonly object[];
  readonly outputs: readonly unknown[];
  apply(inputs: never, options?: { training: boolean }): unknown;
}

/**
 * Wraps a built layers model (`tf.sequential`, `tf.model` or `tf.loadLayersModel`; one output). `parameters()` are its trainable weights,
 * by their names with '/' as '.'; statistics that layers keep are buffers. The model's own variables get their values by `push()`
 * (before `predict`, `save`), and give theirs by `pull()` (after `fit`).
 */
export function fromLayers(model: LayersModelLike): LayersModule {
  return new LayersModule(model);
}

/** Layers whose randomness cannot be repeated for the backward pass. */
const UNREPEATABLE = new Set(['GaussianNoise', 'GaussianDropout', 'AlphaDropout']);

interface RandomLayer {
  rate?: number;
  seed?: number | undefined;
  dropout?: number;
  recurrentDropout?: number;
  getClassName?(): string;
  name?: string;
}

/** A layers model of TensorFlow.js as a module; `nn.fromLayers` makes it. */
export class LayersModule extends Module {
  readonly model: LayersModelLike;
  private readonly weights: readonly { name: string; variable: LayersWeight; parameter: Parameter }[];
  private readonly kept: readonly { variable: LayersWeight; buffer: Tensor }[];

  constructor(model: LayersModelLike) {
    super();
    if (model.outputs.length !== 1) {
      throw new TensorError(`fromLayers takes models with one output, this one has ${model.outputs.length}`);
    }
    this.model = model;
    const path = (variable: LayersWeight): string => variable.name.replaceAll('/', '.');
    this.weights = model.trainableWeights.map((variable) => ({
      name: path(variable),
      variable,
      parameter: new Parameter(fromTf(variable.read())),
    }));
    this.kept = model.nonTrainableWeights.map((variable) => ({
      variable,
      buffer: this.registerBuffer(path(variable), fromTf(variable.read())),
    }));
  }

  protected override parameterEntries(): [string, Parameter][] {
    return this.weights.map(({ name, parameter }) => [name, parameter]);
  }

  /** The model's answer for its inputs, one tensor each. Dropout draws from `manualSeed`'s generator in training mode. */
  forward(...inputs: Tensor[]): Tensor {
    const { training } = this;
    const seeds = training ? this.drawSeeds() : new Map<RandomLayer, number>();
    const before = this.kept.map(({ buffer }) => buffer.clone());
    const count = inputs.length;
    const out = lift((...all) => {
      this.setKept(before);
      const given = all.slice(0, count);
      return this.borrowed(all.slice(count), seeds, () => {
        const result = this.model.apply((count === 1 ? given[0] : given) as never, { training });
        return (Array.isArray(result) ? result[0] : result) as TfTensor;
      });
    })(...inputs, ...this.weights.map(({ parameter }) => parameter));
    if (training) this.readKept();
    return out;
  }

  /** Copies the parameters and buffers into the model's variables. */
  push(): this {
    for (const { variable, parameter } of this.weights) writeTo(variable, parameter);
    this.setKept(this.kept.map(({ buffer }) => buffer));
    return this;
  }

  /** Copies the model's variables into the parameters and buffers. */
  pull(): this {
    noGrad(() => {
      for (const { variable, parameter } of this.weights) parameter.copy_(fromTf(variable.read()));
    });
    this.readKept();
    return this;
  }

  /** Runs `fn` while the layers read `values` for their trainable weights and `seeds` for their randomness. */
  private borrowed(values: readonly TfTensor[], seeds: ReadonlyMap<RandomLayer, number>, fn: () => TfTensor): TfTensor {
    const slots = this.weights.map(({ variable }) => variable as unknown as { val: TfTensor });
    const own = slots.map((slot) => slot.val);
    slots.forEach((slot, i) => (slot.val = values[i] as TfTensor));
    for (const [layer, seed] of seeds) layer.seed = seed;
    try {
      return fn();
    } finally {
      slots.forEach((slot, i) => (slot.val = own[i] as TfTensor));
      for (const layer of seeds.keys()) layer.seed = undefined;
    }
  }

  /** A seed for every dropout layer without its own: the backward pass runs the model again and must drop the same elements. */
  private drawSeeds(): Map<RandomLayer, number> {
    const seeds = new Map<RandomLayer, number>();
    for (const layer of this.model.layers as readonly RandomLayer[]) {
      const kind = layer.getClassName?.() ?? '';
      if (UNREPEATABLE.has(kind) || (layer.dropout ?? 0) > 0 || (layer.recurrentDropout ?? 0) > 0) {
        throw new TensorError(
          `fromLayers: layer '${layer.name ?? kind}' draws random numbers in training that cannot be drawn again for the backward pass; call eval(), or use a Dropout layer`,
        );
      }
      if (kind === 'Dropout' && (layer.rate ?? 0) > 0 && layer.seed === undefined)
        seeds.set(layer, randint(1, 2 ** 31, [1]).item());
    }
    return seeds;
  }

  private setKept(values: readonly Tensor[]): void {
    this.kept.forEach(({ variable }, i) => writeTo(variable, values[i] as Tensor));
  }

  private readKept(): void {
    noGrad(() => {
      for (const { variable, buffer } of this.kept) buffer.copy_(fromTf(variable.read()));
    });
  }
}

function writeTo(variable: LayersWeight, value: Tensor): void {
  tf().tidy(() => void variable.write(toTf(value.detach())));
}
