/** @file Training with trainers that come and go: the coordinator hands out small parts of each epoch to whoever is there. */
import { setTimeout as delay } from 'node:timers/promises';
import { currentAgent, getWorkerInfos, rpcAsync, rpcFunction, rpcInfo, type RpcErrorCode } from '@backwire/rpc';
import { remote, type RRef } from '@backwire/rref';
import { RemoteModule } from '@backwire/dist-autograd';
import type { Parameter } from '@backwire/tensor';
import { readDigits } from '../shared/mnist.ts';
import { progress } from '../shared/progress.ts';
import { testAccuracy, traffic, writeResults } from './coordinator.ts';
import { Net } from './net.ts';
import type { TrainOptions } from './options.ts';
import { addUp, type EpochReport, type Summary } from './reports.ts';
import { COORDINATOR, SERVER } from './roles.ts';
import { Trainer, type TrainerOptions } from './trainer.ts';
import { WorkQueue } from './work-queue.ts';

/** Batches handed out at once. When a trainer dies, those of its part that it had trained are trained again. */
const BATCHES_A_PART = 10;
/** How long the run waits for a worker before it gives up, in milliseconds. */
const PATIENCE_MS = 120_000;
/** How long a worker that only serves looks for the coordinator, in milliseconds. One that is started in another's place may come when all is done. */
const LOOK_MS = 20_000;
/** What a call to a worker that is gone, or about to go, fails with. */
const GONE: ReadonlySet<RpcErrorCode> = new Set<RpcErrorCode>(['peer-died', 'owner-died', 'unavailable', 'draining']);

/** Batches of one epoch. */
interface Part {
  readonly epoch: number;
  readonly first: number;
  readonly end: number;
}

let end: () => void = () => undefined;
/** Resolves on a worker that only serves when the coordinator says that the run is over. */
const over = new Promise<void>((done) => (end = done));
const tellOver = rpcFunction('examples/over', () => end());

/** What every worker but the coordinator does in an elastic run: it is called, until the run is over. */
export async function serveElastically(): Promise<void> {
  if (!(await hasCoordinator())) {
    process.stdout.write(`elastic: no coordinator in ${LOOK_MS / 1000} s: the run is over\n`);
    return;
  }
  const gone = new Promise<never>((_, fail) => {
    const ended = (how: string) => (worker: { readonly name: string }) => {
      if (worker.name === COORDINATOR) fail(new Error(`the coordinator ${how} before the run was over`));
    };
    currentAgent().on('peer-down', ended('died'));
    currentAgent().on('peer-left', ended('left'));
  });
  await Promise.race([over, gone]);
}

async function hasCoordinator(): Promise<boolean> {
  const isThere = (): boolean => getWorkerInfos().some(({ name }) => name === COORDINATOR);
  if (isThere()) return true;
  const stop = new AbortController();
  const seen = new Promise<void>((resolve) =>
    currentAgent().on('peer-joined', () => isThere() && resolve(), { signal: stop.signal }),
  );
  try {
    return await Promise.race([
      seen.then(() => true),
      over.then(() => true),
      delay(LOOK_MS, false, { signal: stop.signal }),
    ]);
  } finally {
    stop.abort();
  }
}

/** The whole run, as the coordinator sees it. `options.trainers` is how many it waits for before it begins. */
export async function coordinateElastically(options: TrainOptions): Promise<Summary> {
  const run = new ElasticRun(options);
  try {
    return await run.train();
  } finally {
    await run.end();
  }
}

class ElasticRun {
  private readonly options: TrainOptions;
  private readonly queue = new WorkQueue<Part>();
  private readonly bars = progress(['batches'], process.stdout);
  private readonly training = new Set<string>();
  private readonly reports: EpochReport[] = [];
  private readonly stopListening = new AbortController();
  private fail: (error: unknown) => void = () => undefined;
  /** Rejects when something fails that no other trainer can make good. */
  private readonly broken = new Promise<never>((_, fail) => (this.fail = fail));
  private readonly waiters = new Set<() => void>();
  private done = 0;
  private total = 0;
  private readonly share: TrainerOptions;
  private net: RemoteModule<Net> | undefined;
  private parameters: RRef<Parameter>[] = [];

  constructor(options: TrainOptions) {
    this.options = options;
    // One share, which is all of it: every trainer holds all digits and is told which batches are its own.
    this.share = { ...options, trainers: 1, data: options.data ?? null, limit: options.limit ?? null };
    this.broken.catch(() => undefined);
  }

  async train(): Promise<Summary> {
    const { options } = this;
    const test = readDigits('test', options.data);
    const size = Math.min(options.limit ?? Infinity, readDigits('train', options.data).count);
    const perEpoch = Math.ceil(size / options.batchSize);
    this.total = perEpoch * options.epochs;
    this.listen();
    await this.until(() => getWorkerInfos().some(({ name }) => name === SERVER), 'the server');
    const net = (this.net = await RemoteModule.create(SERVER, Net, [options.seed]));
    this.parameters = await net.remoteParameters();
    for (const { name } of getWorkerInfos()) this.join(name);
    await this.until(() => this.training.size >= options.trainers, `${options.trainers} trainers`);
    const accuracy: number[] = [];
    const epochs: EpochReport[][] = [];
    const secondsByEpoch: number[] = [];
    for (let epoch = 0; epoch < options.epochs; epoch++) {
      const began = performance.now();
      await Promise.race([this.queue.wave(parts(epoch, perEpoch)), this.broken]);
      secondsByEpoch.push((performance.now() - began) / 1_000);
      epochs.push([addUp(this.reports.splice(0))]);
      accuracy.push(await testAccuracy(net, test));
      this.bars.say(
        `epoch ${epoch + 1} of ${options.epochs}: test accuracy ${((accuracy.at(-1) ?? 0) * 100).toFixed(2)} %`,
      );
    }
    this.bars.stop();
    // Those that died took their counts with them.
    const counted = await Promise.all(
      getWorkerInfos().map(({ name }) => rpcAsync(name, traffic).catch(() => ({ calls: 0, bytesSent: 0 }))),
    );
    return writeResults(options, net, { epochs, accuracy, secondsByEpoch, counted, traces: [] });
  }

  /** Lets everybody go, the trainers first. */
  async end(): Promise<void> {
    this.bars.stop();
    this.stopListening.abort();
    this.queue.close();
    this.net?.getModuleRRef().dispose();
    const others = getWorkerInfos().filter(({ name }) => name !== COORDINATOR);
    const trainers = others.filter(({ name }) => name !== SERVER);
    const tell = ({ name }: { readonly name: string }): Promise<void> =>
      rpcAsync(name, tellOver).catch(() => undefined);
    await Promise.all(trainers.map(tell));
    await Promise.all(others.filter(({ name }) => name === SERVER).map(tell));
  }

  private listen(): void {
    const { signal } = this.stopListening;
    const agent = currentAgent();
    agent.on(
      'peer-joined',
      ({ name }) => {
        this.changed();
        if (this.net !== undefined) this.join(name);
      },
      { signal },
    );
    for (const event of ['peer-down', 'peer-left'] as const) {
      agent.on(event, ({ name }) => this.left(name), { signal });
    }
  }

  private join(name: string): void {
    if (name === COORDINATOR || name === SERVER || this.training.has(name)) return;
    this.feed(name).catch((error: unknown) => (isGone(error) ? this.left(name) : this.fail(error)));
  }

  /** Gives one trainer work until there is none, or it is gone. */
  private async feed(name: string): Promise<void> {
    const { share, net, parameters } = this;
    if (net === undefined) return;
    using trainer = remote(name, Trainer, [share, 0, net.getModuleRRef(), parameters]);
    await trainer.confirmed();
    this.training.add(name);
    this.bars.say(`elastic: ${name} joined, ${this.training.size} train`);
    this.changed();
    for (let part = await this.queue.take(name); part !== undefined; part = await this.queue.take(name)) {
      const report = await trainer.rpcAsync({ timeoutMs: 0 }).part(part.epoch, part.first, part.end);
      if (!this.training.has(name)) return;
      this.reports.push(report);
      this.done += part.end - part.first;
      this.bars.update('batches', { done: this.done, total: this.total, value: report.losses.at(-1) ?? Number.NaN });
    }
  }

  private left(name: string): void {
    if (name === SERVER) this.fail(new Error('the server is gone, and the parameters with it'));
    if (!this.training.delete(name)) return;
    const rest = this.training.size;
    this.bars.say(`elastic: ${name} is gone, ${rest} train; its share goes to the others`);
    this.queue.leave(name);
    if (rest > 0) return;
    this.bars.say('elastic: nobody trains; waiting for a trainer');
    this.until(() => this.training.size > 0, 'a trainer').catch(this.fail);
  }

  private changed(): void {
    for (const look of this.waiters) look();
    this.waiters.clear();
  }

  /** Waits until `holds`, looked at whenever somebody joins. */
  private async until(holds: () => boolean, what: string): Promise<void> {
    const giveUp = setTimeout(
      () => this.fail(new Error(`waited ${PATIENCE_MS / 1000} s in vain for ${what}`)),
      PATIENCE_MS,
    );
    try {
      while (!holds()) await Promise.race([new Promise<void>((done) => this.waiters.add(done)), this.broken]);
    } finally {
      clearTimeout(giveUp);
    }
  }
}

function parts(epoch: number, batches: number): Part[] {
  return Array.from({ length: Math.ceil(batches / BATCHES_A_PART) }, (_, i) => ({
    epoch,
    first: i * BATCHES_A_PART,
    end: Math.min((i + 1) * BATCHES_A_PART, batches),
  }));
}

function isGone(error: unknown): boolean {
  const code = rpcInfo(error)?.code;
  return code !== undefined && GONE.has(code);
}
