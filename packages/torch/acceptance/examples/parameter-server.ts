/** @file The server and the trainers of parameter_server.py, written for workers of this kind: each takes the other's place. */
import { DistributedOptimizer, backward, context } from '@backwire/dist-autograd';
import { rpcSync } from '@backwire/rpc';
import { createRRef, remote, type RRef } from '@backwire/rref';
import { logSoftmax, maxPool2d, nllLoss, nn, optim, relu, scope, tensor, type Tensor } from '@backwire/tensor';
import { py, type TorchAgent } from '../../src/index.ts';
import { Group, type Place } from './group.ts';

const SERVER = 'ps';
/** The module that has the other side's half. */
const MODULE = 'parameter_server';
const [SIDE, CLASSES, BATCH] = [12, 10, 16];
const SETTINGS = { lr: 0.05, momentum: 0.9 };

class Net extends nn.Module {
  readonly conv1 = new nn.Conv2d(1, 8, 3);
  readonly conv2 = new nn.Conv2d(8, 16, 3);
  readonly fc1 = new nn.Linear(16 * 4 * 4, 32);
  readonly fc2 = new nn.Linear(32, CLASSES);

  forward(x: Tensor): Tensor {
    const seen = maxPool2d(relu(this.conv2.forward(relu(this.conv1.forward(x)))), 2);
    return logSoftmax(this.fc2.forward(relu(this.fc1.forward(seen.flatten(1)))), 1);
  }
}

class ParameterServer {
  readonly model = new Net();

  forward(x: Tensor): Tensor {
    return this.model.forward(x);
  }

  get_param_rrefs(): RRef<Tensor>[] {
    return this.model.parameters().map((parameter) => createRRef<Tensor>(parameter));
  }
}

/** Takes the server's place; `from` says with which weights torch's own would begin. */
async function serveParameters(agent: TorchAgent, from: string): Promise<void> {
  const server = new ParameterServer();
  const first = py<() => Map<string, Tensor>>(`${MODULE}.first_weights`);
  server.model.loadStateDict(await agent.run(() => rpcSync(from, first)));
  agent.offer(`${MODULE}.get_parameter_server`, () => server);
  agent.offer(`${MODULE}.ParameterServer`, ParameterServer, ['forward', 'get_param_rrefs']);
}

/** Pictures of classes with noise in them, the same as there. */
class Digits {
  private state = 7;
  private readonly patterns: readonly number[][];

  constructor(trainer: number) {
    this.patterns = Array.from({ length: CLASSES }, () => this.draw(SIDE * SIDE));
    this.state = 1_000 + trainer;
  }

  batch(): { readonly x: Tensor; readonly y: Tensor } {
    const labels: number[] = [];
    const pixels: number[] = [];
    for (let i = 0; i < BATCH; i++) {
      const label = Math.floor((this.draw(1)[0] as number) * CLASSES);
      const noise = this.draw(SIDE * SIDE);
      pixels.push(...(this.patterns[label] ?? []).map((pattern, k) => (pattern + (noise[k] as number)) / 2 - 0.5));
      labels.push(label);
    }
    return { x: tensor(pixels, { shape: [BATCH, 1, SIDE, SIDE] }), y: tensor(labels, { dtype: 'int64' }) };
  }

  private draw(count: number): number[] {
    return Array.from({ length: count }, () => {
      this.state = (Math.imul(this.state, 1_664_525) + 1_013_904_223) >>> 0;
      return (this.state >>> 16) / 65_536;
    });
  }
}

/** The trainer of this kind. */
class Trainer {
  private readonly agent: TorchAgent;
  private readonly digits: Digits;
  private readonly server: RRef<ParameterServer>;
  private readonly parameters: readonly RRef<Tensor>[];
  private readonly optimizer: DistributedOptimizer;

  private constructor(
    agent: TorchAgent,
    trainer: number,
    server: RRef<ParameterServer>,
    parameters: readonly RRef<Tensor>[],
    optimizer: DistributedOptimizer,
  ) {
    this.agent = agent;
    this.digits = new Digits(trainer);
    this.server = server;
    this.parameters = parameters;
    this.optimizer = optimizer;
  }

  static create(agent: TorchAgent, trainer: number): Promise<Trainer> {
    return agent.run(async () => {
      const server = remote(SERVER, py<() => ParameterServer>(`${MODULE}.get_parameter_server`));
      const parameters = await server.rpcSync().get_param_rrefs();
      const optimizer = await DistributedOptimizer.create(optim.SGD, parameters, SETTINGS);
      return new Trainer(agent, trainer, server, parameters, optimizer);
    });
  }

  /** One batch; its loss. */
  step(): Promise<number> {
    const train = (): Promise<number> =>
      context(async (id) => {
        const { x, y } = this.digits.batch();
        const loss = nllLoss(await this.server.rpcSync().forward(x), y);
        await backward(id, [loss]);
        await this.optimizer.step(id);
        return loss.item();
      });
    return this.agent.run(() => scope(train));
  }

  dispose(): void {
    for (const rref of [this.server, ...this.parameters]) rref.dispose();
  }
}

/** Who is in which place. */
export interface Split {
  readonly name: string;
  readonly server: Place;
  readonly trainers: readonly [Place, Place];
}

export const ALL_TORCH: Split = { name: 'all in torch', server: 'torch', trainers: ['torch', 'torch'] };
export const SPLITS: readonly Split[] = [
  { name: 'the server in Node, the trainers in torch', server: 'here', trainers: ['torch', 'torch'] },
  { name: 'the server in torch, the trainers in Node', server: 'torch', trainers: ['here', 'here'] },
  { name: 'the server and a trainer in torch, a trainer in Node', server: 'torch', trainers: ['torch', 'here'] },
];

/** The losses of so many steps. The trainers take turns: which of two that run free comes first is chance. */
export async function train({ server, trainers }: Split, steps: number): Promise<number[]> {
  const names = ['trainer1', 'trainer2'] as const;
  const group = await Group.start({ [SERVER]: server, trainer1: trainers[0], trainer2: trainers[1] }, MODULE);
  const here: Trainer[] = [];
  try {
    if (server === 'here') await serveParameters(group.agent(SERVER), names[trainers.indexOf('torch')] as string);
    const turns: (() => Promise<number>)[] = [];
    for (const [i, name] of names.entries()) {
      if (trainers[i] === 'here') {
        const trainer = await Trainer.create(group.agent(name), i + 1);
        here.push(trainer);
        turns.push(() => trainer.step());
      } else {
        await group.python(name, `trainer = ${MODULE}.Trainer(${i + 1})`);
        turns.push(async () => Number(await group.value(name, 'trainer.step()')));
      }
    }
    const losses: number[] = [];
    for (let step = 0; step < steps; step++) losses.push(await (turns[step % turns.length] as () => Promise<number>)());
    for (const trainer of here) trainer.dispose();
    await group.end();
    return losses;
  } finally {
    await group.kill();
  }
}

/** Where two curves are farthest apart, and how far. */
export function apart(
  losses: readonly number[],
  others: readonly number[],
): { readonly most: number; readonly at: number } {
  if (losses.length !== others.length) throw new RangeError(`${losses.length} losses and ${others.length}`);
  const gaps = losses.map((loss, i) => Math.abs(loss - (others[i] as number)));
  // One that is no number is as far apart as can be.
  const most = gaps.some(Number.isNaN) ? Infinity : Math.max(...gaps);
  return { most, at: gaps.findIndex((gap) => gap === most || Number.isNaN(gap)) };
}
