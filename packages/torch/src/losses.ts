/** @file Workers whose connections ended while the group goes on: each is asked whether it is there, and who waits for it is told. */
import { RpcError, rpcInfo, type WorkerInfo } from '@backwire/rpc';

export interface LossesHost {
  /** Calls a function that every worker has, over a new connection. */
  ask(worker: WorkerInfo): Promise<unknown>;
  /** Nobody is there any more. */
  gone(worker: WorkerInfo): void;
}

/** A connection that ended is no death yet: the next request makes a new one. One who cannot be reached then is lost. */
export class Losses {
  private readonly host: LossesHost;
  private readonly asked = new Set<string>();
  private waiting: ((error: RpcError) => void)[] = [];

  constructor(host: LossesHost) {
    this.host = host;
  }

  /** Whether it is being asked: its connections may end meanwhile. */
  isAsked({ name }: WorkerInfo): boolean {
    return this.asked.has(name);
  }

  /** Asks it, unless that is under way. */
  check(worker: WorkerInfo): void {
    const { name } = worker;
    if (this.asked.has(name)) return;
    this.asked.add(name);
    this.host
      .ask(worker)
      .catch((error: unknown) => this.failed(worker, error))
      .finally(() => this.asked.delete(name));
  }

  /** Resolves when a worker is lost from now on, with the error of those who wait for it; else never. */
  first(): Promise<RpcError> {
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  private failed(worker: WorkerInfo, error: unknown): void {
    const code = rpcInfo(error)?.code;
    if (code !== 'unavailable' && code !== 'peer-died') return;
    this.host.gone(worker);
    const text = `worker '${worker.name}' is gone, and had not left`;
    for (const resolve of this.waiting.splice(0)) resolve(new RpcError('barrier-broken', text, { cause: error }));
  }
}
