import { setTimeout as delay } from 'node:timers/promises';
import { currentAgent, getWorkerInfos, RpcError, rpcInfo, type WorkerInfo } from 'backwire';

/** The workers whose names begin with a prefix, and how many calls of this process each of them has. */
export class Pool {
  readonly #open = new Map<string, number>();
  readonly #most: number;

  /** `most` is how many calls a worker may have from here; beyond that clients are sent away instead of kept waiting. */
  constructor(prefix: string, most: number) {
    this.#most = most;
    const add = ({ name }: WorkerInfo): void => {
      if (name.startsWith(prefix)) this.#open.set(name, 0);
    };
    const remove = ({ name }: WorkerInfo): void => void this.#open.delete(name);
    const agent = currentAgent();
    agent.on('peer-joined', add);
    agent.on('peer-left', remove); // it said so
    agent.on('peer-down', remove); // it was found dead
    getWorkerInfos().forEach(add);
  }

  /** How many workers there are. */
  get size(): number {
    return this.#open.size;
  }

  /** Makes a call on the worker with the least to do, and again on another one where it does no harm. */
  async call<T>(attempt: (worker: string) => Promise<T>, tries = 3): Promise<T> {
    const tried = new Set<string>();
    for (let n = 1; ; n++) {
      const worker = this.#take(tried);
      try {
        return await attempt(worker);
      } catch (error) {
        tried.add(worker);
        if (n >= tries || !mayRepeat(error)) throw error;
        await this.#pause(tried, n);
      } finally {
        this.#giveBack(worker);
      }
    }
  }

  /** The same for streams. Once an item has been given, a failure is the caller's: what follows it may differ elsewhere. */
  async *stream<T>(attempt: (worker: string) => AsyncIterable<T>, tries = 3): AsyncGenerator<T> {
    const tried = new Set<string>();
    for (let n = 1; ; n++) {
      const worker = this.#take(tried);
      let begun = false;
      try {
        for await (const item of attempt(worker)) {
          begun = true;
          yield item;
        }
        return;
      } catch (error) {
        tried.add(worker);
        if (begun || n >= tries || !mayRepeat(error)) throw error;
        await this.#pause(tried, n);
      } finally {
        this.#giveBack(worker);
      }
    }
  }

  /** Who has failed is asked again some time later, when it may be back or have a successor; another worker is asked at once. */
  async #pause(tried: ReadonlySet<string>, n: number): Promise<void> {
    if ([...this.#open.keys()].every((name) => tried.has(name))) await delay(100 * n);
  }

  #take(tried: ReadonlySet<string>): string {
    const all = [...this.#open].sort(([, a], [, b]) => a - b);
    const [worker, open] = all.find(([name]) => !tried.has(name)) ?? all[0] ?? [];
    if (worker === undefined || open === undefined) throw new RpcError('unavailable', 'no worker is there');
    if (open >= this.#most) throw new RpcError('resource-exhausted', 'all workers are busy');
    this.#open.set(worker, open + 1);
    return worker;
  }

  #giveBack(worker: string): void {
    const open = this.#open.get(worker);
    if (open !== undefined) this.#open.set(worker, open - 1);
  }
}

/** Whether another worker may be asked. These functions only compute, so one that may have run can be called once more. */
function mayRepeat(error: unknown): boolean {
  const info = rpcInfo(error);
  return info !== undefined && (info.retryable || info.code === 'peer-died' || info.code === 'unavailable');
}
