/** @file In a loader's thread: opens its copy of the data set, and makes the batches that it is asked for, one after the other. */
import { manualSeed, setRandomState } from '../random.ts';
import { defaultCollate } from './collate.ts';
import { ConcatDataset, Subset, type Dataset } from './dataset.ts';
import { pack } from './packing.ts';
import { asDataset, END, isStream, Streamed, type SampleStream } from './sources.ts';
import { setWorkerInfo } from './worker-info.ts';
import { packError, type DatasetRecipe, type LoaderThreadData, type ModuleExport, type Order, type Serve, type ThreadPort, type Wanted } from './worker-messages.ts'; // prettier-ignore

type Collate = (samples: unknown[]) => unknown;
type AnyDataset = Dataset<unknown> | SampleStream<unknown>;
type Find = (place: ModuleExport) => Promise<(...args: never[]) => unknown>;

/** The program of a loader's thread. */
export const serve: Serve = async (port, start, importModule) => {
  const find: Find = async ({ url, name }) => {
    const found = (await importModule(url))[name];
    if (typeof found !== 'function') throw new TypeError(`${url} exports no function '${name}'`);
    return found as (...args: never[]) => unknown;
  };
  const { id, numWorkers } = start;
  setWorkerInfo({ id, numWorkers, seed: start.seed + id, dataset: undefined });
  const dataset = await openDataset(start.recipe, find);
  const collate = start.collate === undefined ? undefined : ((await find(start.collate)) as Collate);
  const init = start.workerInit === undefined ? undefined : await find(start.workerInit);
  const server = new WorkerServer(port, start, { dataset, collate, init: init as Init | undefined });
  port.on('message', (order) => server.take(order));
};

async function openDataset(recipe: DatasetRecipe, find: Find): Promise<AnyDataset> {
  switch (recipe.kind) {
    case 'module': {
      const open = (await find(recipe)) as (...args: readonly unknown[]) => unknown;
      setRandomState(recipe.random);
      const opened = (await open(...recipe.args)) as AnyDataset | readonly unknown[];
      return isStream(opened) ? opened : asDataset(opened);
    }
    case 'subset':
      return new Subset((await openDataset(recipe.of, find)) as Dataset<unknown>, recipe.indices);
    case 'concat': {
      const opened: AnyDataset[] = [];
      // One after the other: each has the random numbers to itself.
      for (const one of recipe.of) opened.push(await openDataset(one, find));
      return new ConcatDataset(opened as Dataset<unknown>[]);
    }
  }
}

type Init = (workerId: number) => unknown;

interface Parts {
  readonly dataset: AnyDataset;
  /** undefined for the default one, whose batches nobody else holds. */
  readonly collate: Collate | undefined;
  readonly init: Init | undefined;
}

class WorkerServer {
  private readonly port: ThreadPort;
  private readonly start: LoaderThreadData;
  private readonly parts: Parts;
  /** Ends when all that was asked for so far is done. */
  private turn: Promise<unknown> = Promise.resolve();
  private stream: Streamed<unknown, unknown> | undefined;
  private initialized = false;
  /** Epochs up to this one are over. */
  private cancelled = 0;
  private onCancel: (() => void) | undefined;

  constructor(port: ThreadPort, start: LoaderThreadData, parts: Parts) {
    this.port = port;
    this.start = start;
    this.parts = parts;
  }

  take(order: Order): void {
    if (order.op === 'cancel') {
      this.cancelled = order.epoch;
      this.onCancel?.();
    }
    if (order.op === 'stop') return void this.stop();
    this.turn = this.turn.then(() => this.serve(order)).catch((error: unknown) => this.fail(undefined, error));
  }

  private async serve(order: Exclude<Order, { op: 'stop' }>): Promise<void> {
    if (order.op === 'epoch') await this.begin(order.seed);
    else if (order.op === 'cancel') await this.closeStream();
    else {
      // A cancellation that has arrived meanwhile is heard first.
      await new Promise<void>((resolve) => setTimeout(resolve));
      if (order.epoch > this.cancelled) await this.fetch(order.task, order.of);
    }
  }

  private async begin(seed: number): Promise<void> {
    const { id, numWorkers, batchSize, dropLast } = this.start;
    const { dataset, collate = defaultCollate } = this.parts;
    manualSeed(seed + id);
    setWorkerInfo({ id, numWorkers, seed: seed + id, dataset });
    if (!this.initialized) await this.parts.init?.(id);
    this.initialized = true;
    await this.closeStream();
    if (isStream(dataset)) this.stream = new Streamed(dataset, { batchSize, dropLast, collate });
  }

  private async fetch(task: number, wanted: Wanted): Promise<void> {
    const cancelled = new Promise<typeof END>((resolve) => (this.onCancel = () => resolve(END)));
    try {
      const batch = await Promise.race([this.make(wanted), cancelled]);
      if (batch === END) return this.port.postMessage({ op: 'end', task });
      const own = this.parts.collate === undefined && this.start.batchSize !== null;
      const { packed, transfer } = pack(batch, own);
      this.port.postMessage({ op: 'batch', task, batch: packed }, transfer);
    } catch (error) {
      this.fail(task, error);
    } finally {
      this.onCancel = undefined;
    }
  }

  private async make(wanted: Wanted): Promise<unknown> {
    if (this.stream !== undefined) return this.stream.next();
    const dataset = this.parts.dataset as Dataset<unknown>;
    if (typeof wanted === 'number') return sampleAt(dataset, wanted);
    const { collate = defaultCollate } = this.parts;
    return collate(await Promise.all((wanted ?? []).map((i) => sampleAt(dataset, i))));
  }

  private fail(task: number | undefined, thrown: unknown): void {
    const [error, index] = thrown instanceof SampleError ? [thrown.cause, thrown.index] : [thrown, undefined];
    this.port.postMessage({ op: 'failed', task, index, error: packError(error) });
  }

  private async closeStream(): Promise<void> {
    const { stream } = this;
    this.stream = undefined;
    await stream?.close();
  }

  private async stop(): Promise<void> {
    try {
      await this.closeStream();
    } finally {
      // Of this thread alone, whatever the data set has left open.
      process.exit(0);
    }
  }
}

/** What a data set threw for one of its samples. */
class SampleError extends Error {
  readonly index: number;
  constructor(index: number, cause: unknown) {
    super(`sample ${index}`, { cause });
    this.index = index;
  }
}

/** @throws SampleError around what the data set throws */
async function sampleAt(dataset: Dataset<unknown>, index: number): Promise<unknown> {
  try {
    return await dataset.get(index);
  } catch (error) {
    throw new SampleError(index, error);
  }
}
