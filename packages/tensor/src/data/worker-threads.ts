/** @file The threads of a loader: started together, asked by number, and ended together when one of them is lost. */
import type * as Threads from 'node:worker_threads';
import type { Worker } from 'node:worker_threads';
import { runAtRoot } from '../ambient.ts';
import { TensorError } from '../errors.ts';
import { LOADER_THREAD } from '../gen/loader-thread.ts';
import { limits } from '../limits.ts';
import type { Packed } from './packing.ts';
import { IN_LOADER_THREAD, unpackError, type LoaderThreadData, type LoaderThreadPlan, type Order, type Report, type Wanted } from './worker-messages.ts'; // prettier-ignore

/** The longest time that a timer can be set for. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** A thread of a `DataLoader` failed: its data set threw (`cause` is the error, with its stack in the thread), it ended, or it took too long. */
export class DataLoaderWorkerError extends TensorError {
  override readonly name = 'DataLoaderWorkerError';
  /** Which thread, from 0. */
  readonly workerId: number;
  /** The sample whose making threw, where it is known. */
  readonly index: number | undefined;

  constructor(message: string, at: { workerId: number; index?: number | undefined; cause?: unknown }) {
    super(message, at.cause === undefined ? {} : { cause: at.cause });
    this.workerId = at.workerId;
    this.index = at.index;
  }
}

/** A batch on its way; 'end' where the thread's stream is over. */
export interface Pending {
  readonly workerId: number;
  readonly answer: Promise<Packed | 'end'>;
}

interface Waiting {
  resolve(value: Packed | 'end'): void;
  reject(error: Error): void;
}

/** @throws TensorError where there are no threads, or where one would start others without end. */
export function checkThreads(): void {
  threadsHere();
}

/** Not exported, so that no declaration names Node's types, which a program for browsers does not have. */
function threadsHere(): typeof Threads {
  const threads = globalThis.process?.getBuiltinModule?.('node:worker_threads');
  if (threads === undefined)
    throw new TensorError("DataLoader: numWorkers needs Node's threads; without them numWorkers is 0");
  if (IN_LOADER_THREAD in globalThis)
    throw new TensorError(
      "DataLoader: a loader's thread cannot start threads of its own. Is the data set's module the program itself, which each thread runs? Then move the data set to a module of its own",
    );
  return threads;
}

/** Threads that stand ready, each with its copy of a data set. One epoch at a time uses them. */
export class ThreadPool {
  private readonly threads: readonly Thread[];
  private readonly streams: boolean;
  private readonly waiting = new Map<number, Waiting>();
  private tasks = 0;
  private epoch = 0;
  private failure: Error | undefined;
  private closing: Promise<void> | undefined;

  /** @param seed of the first epoch, which data sets are told while they are opened */
  constructor(plan: LoaderThreadPlan, seed: number) {
    const { Worker } = threadsHere();
    this.streams = plan.stream;
    const owner: ThreadOwner = {
      told: (id, report) => this.told(id, report),
      lost: (error) => this.fail(error),
    };
    try {
      this.threads = Array.from(
        { length: plan.numWorkers },
        (_, id) => new Thread(Worker, { ...plan, id, seed }, owner),
      );
    } catch (error) {
      if (!(error instanceof DOMException) || error.name !== 'DataCloneError') throw error;
      const what = `the arguments of '${plan.entry.name}' cannot be handed to threads: ${error.message}`;
      throw new TypeError(`DataLoader: ${what}`, { cause: error });
    }
  }

  /** Whether it can be used for another epoch. */
  get sound(): boolean {
    return this.failure === undefined && this.closing === undefined;
  }

  /** All threads seed themselves, each with its number added, and open their streams. */
  begin(seed: number): void {
    this.epoch++;
    for (const thread of this.threads) thread.tell({ op: 'epoch', epoch: this.epoch, seed });
  }

  ask(workerId: number, of: Wanted): Pending {
    const task = this.tasks++;
    const answer = new Promise<Packed | 'end'>((resolve, reject) => {
      if (this.sound) this.waiting.set(task, { resolve, reject });
      else reject(this.failure ?? closed());
    });
    // It is thrown where the program comes to it; if it never does, nobody asked for it.
    answer.catch(() => undefined);
    if (this.sound) this.thread(workerId).tell({ op: 'fetch', epoch: this.epoch, task, of });
    return { workerId, answer };
  }

  /** The answer; the process lives on for it. @throws DataLoaderWorkerError, after `timeoutMs` too, unless that is 0. */
  async wait({ workerId, answer }: Pending, timeoutMs: number): Promise<Packed | 'end'> {
    const thread = this.thread(workerId);
    const late = (): void =>
      this.fail(new DataLoaderWorkerError(`DataLoader timed out: worker ${workerId} gave no batch within ${timeoutMs} ms`, { workerId })); // prettier-ignore
    const timer = timeoutMs > 0 ? setTimeout(late, Math.min(timeoutMs, MAX_TIMER_MS)) : undefined;
    thread.hold(true);
    try {
      return await answer;
    } finally {
      clearTimeout(timer);
      thread.hold(false);
    }
  }

  /** What was asked for and has not come is not wanted any more. */
  cancel(): void {
    this.waiting.clear();
    for (const thread of this.threads) thread.tell({ op: 'cancel', epoch: this.epoch });
  }

  /** Ends the threads; streams are closed before, if that takes no time to speak of. */
  close(): Promise<void> {
    const ending = (this.closing ??= Promise.all(this.threads.map((thread) => thread.end(this.streams && this.failure === undefined))).then(() => undefined)); // prettier-ignore
    this.rejectAll(this.failure ?? closed());
    return ending;
  }

  private thread(id: number): Thread {
    return this.threads[id] as Thread;
  }

  private told(workerId: number, report: Report): void {
    if (report.op === 'failed' && report.task === undefined) return this.fail(caught(workerId, report));
    const waiting = this.waiting.get(report.task as number);
    // Otherwise it was asked for by an epoch that is over.
    if (waiting === undefined) return;
    this.waiting.delete(report.task as number);
    if (report.op === 'failed') waiting.reject(caught(workerId, report));
    else waiting.resolve(report.op === 'end' ? 'end' : report.batch);
  }

  /** One that is lost ends all: nobody makes its batches. */
  private fail(error: Error): void {
    if (!this.sound) return;
    this.failure = error;
    this.rejectAll(error);
    void this.close();
  }

  private rejectAll(error: Error): void {
    for (const waiting of this.waiting.values()) waiting.reject(error);
    this.waiting.clear();
  }
}

function closed(): TensorError {
  return new TensorError('the DataLoader was closed');
}

function caught(workerId: number, { error, index }: Extract<Report, { op: 'failed' }>): DataLoaderWorkerError {
  const where = index === undefined ? '' : `, sample ${index}`;
  return new DataLoaderWorkerError(`Caught ${error.name} in DataLoader worker ${workerId}${where}: ${error.message}`, {
    workerId,
    index,
    cause: unpackError(error),
  });
}

interface ThreadOwner {
  told(workerId: number, report: Report): void;
  /** It is not there any more, and was not to end. */
  lost(error: DataLoaderWorkerError): void;
}

class Thread {
  private readonly worker: Worker;
  private readonly exited: Promise<unknown>;
  private holds = 0;
  private ending = false;

  constructor(Worker: typeof Threads.Worker, workerData: LoaderThreadData, owner: ThreadOwner) {
    const { id: workerId } = workerData;
    // What the thread says does not belong to the call in which the epoch began.
    this.worker = runAtRoot(
      () => new Worker(LOADER_THREAD, { eval: true, workerData, name: `backwire-loader-${workerId}` }),
    );
    const { worker } = this;
    // Waiting for a batch keeps the process, a thread alone does not.
    worker.unref();
    const lost = (message: string, cause?: unknown): void => {
      if (!this.ending) owner.lost(new DataLoaderWorkerError(message, { workerId, cause }));
    };
    worker.on('message', (report: Report) => owner.told(workerId, report));
    worker.on('messageerror', (error) => lost(`DataLoader worker ${workerId} sent what could not be read`, error));
    worker.on('error', (error) => lost(`DataLoader worker ${workerId} ended with an uncaught ${named(error)}`, error));
    this.exited = new Promise((resolve) => {
      worker.on('exit', (code) => {
        lost(`DataLoader worker ${workerId} exited unexpectedly with code ${code}`);
        resolve(code);
      });
    });
  }

  tell(order: Order): void {
    this.worker.postMessage(order);
  }

  hold(on: boolean): void {
    this.holds += on ? 1 : -1;
    if (this.holds > 0) this.worker.ref();
    else this.worker.unref();
  }

  /** @param closing whether it closes what it reads before */
  async end(closing: boolean): Promise<void> {
    this.ending = true;
    this.hold(true);
    if (closing) {
      this.tell({ op: 'stop' });
      let timer: NodeJS.Timeout | undefined;
      const patience = new Promise((resolve) => (timer = setTimeout(resolve, limits.loaderThreadStopMs)));
      await Promise.race([this.exited, patience]);
      clearTimeout(timer);
    }
    await this.worker.terminate();
  }
}

function named(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}
