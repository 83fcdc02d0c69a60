/** @file The language model: embedding and decoder on the server, the LSTM between them here. */
import { manualSeed, nn, optim, type Parameter, tensor, type Tensor } from '@backwire/tensor';
import { rpcFunction, rpcSync } from '@backwire/rpc';
import { createRRef, type RRef } from '@backwire/rref';
import { DistributedOptimizer, RemoteModule } from '@backwire/dist-autograd';

export const SERVER = 'server';

/** Hidden and cell state of the LSTM. */
export type State = [Tensor, Tensor];

const seedRandom = rpcFunction('examples/rnn/seed', (seed: number) => manualSeed(seed));

export interface Sizes {
  readonly vocabulary: number;
  readonly embedding: number;
  readonly hidden: number;
}

export class LanguageModel extends nn.Module {
  /** A table on the server, of which each batch reads, and changes, only the rows of its words. */
  readonly embedding: RemoteModule<nn.Embedding>;
  readonly lstm: nn.LSTM;
  readonly decoder: RemoteModule<nn.Linear>;
  private readonly hidden: number;

  private constructor(
    embedding: RemoteModule<nn.Embedding>,
    lstm: nn.LSTM,
    decoder: RemoteModule<nn.Linear>,
    hidden: number,
  ) {
    super();
    this.embedding = embedding;
    this.lstm = lstm;
    this.decoder = decoder;
    this.hidden = hidden;
  }

  /** The same `seed` gives the same weights. */
  static async create({ vocabulary, embedding, hidden }: Sizes, seed: number): Promise<LanguageModel> {
    await rpcSync(SERVER, seedRandom, [seed]);
    const table = await RemoteModule.create(SERVER, nn.Embedding, [vocabulary, embedding, { sparse: true }]);
    const decoder = await RemoteModule.create(SERVER, nn.Linear, [hidden, vocabulary]);
    manualSeed(seed + 1);
    return new LanguageModel(table, new nn.LSTM(embedding, hidden), decoder, hidden);
  }

  /** Logits [steps · columns, vocabulary] of what comes after each word of `ids` [steps, columns], and the state at the end. */
  async forward(ids: Tensor, state: State): Promise<[Tensor, State]> {
    const [output, next] = this.lstm.forward(await this.embedding.forward(ids), state);
    return [await this.decoder.forward(output.reshape([-1, this.hidden])), next];
  }

  /** The state before the first word. */
  start(columns: number): State {
    const zeros = (): Tensor => tensor(new Float32Array(columns * this.hidden), { shape: [1, columns, this.hidden] });
    return [zeros(), zeros()];
  }

  dispose(): void {
    for (const part of [this.embedding, this.decoder]) part.getModuleRRef().dispose();
  }
}

/** Adagrad for the table, whose gradients are sparse; Adam for everything else. */
export class Optimizers {
  private readonly all: readonly DistributedOptimizer[];

  private constructor(all: readonly DistributedOptimizer[]) {
    this.all = all;
  }

  static async create(model: LanguageModel, lr: number): Promise<Optimizers> {
    const local: RRef<Parameter>[] = model.lstm.parameters().map((parameter) => createRRef(parameter));
    return new Optimizers([
      await DistributedOptimizer.create(optim.Adagrad, await model.embedding.remoteParameters(), { lr: 30 * lr }),
      await DistributedOptimizer.create(optim.Adam, [...local, ...(await model.decoder.remoteParameters())], { lr }),
    ]);
  }

  async step(contextId: bigint): Promise<void> {
    await Promise.all(this.all.map((optimizer) => optimizer.step(contextId)));
  }
}
