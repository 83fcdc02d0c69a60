/** @file A browser's member of a group, for tests: what the test asks of it goes through `window.backwire`. */
import { tensor, type Tensor } from '@backwire/tensor';
// eslint-disable-next-line @nx/enforce-module-boundaries -- by its name, so that the condition `browser` decides what it is
import {
  barrier,
  callContext,
  createAgent,
  getWorkerInfos,
  remoteFunction,
  rpcAsync,
  rpcFunction,
  rpcInfo,
  rpcStream,
  type RpcAgent,
} from '@backwire/rpc';

let agent: RpcAgent | undefined;
const scale = remoteFunction<(x: Tensor, by: number) => Tensor>('browser/scale');
const fail = remoteFunction<(text: string) => void>('browser/fail');
const hang = remoteFunction<() => void>('browser/hang');
const count = remoteFunction<(to: number) => AsyncIterable<number>>('browser/count');

rpcFunction('page/double', (x: Tensor) => x.mul(2));
rpcFunction('page/who', () => `${callContext().caller.name} at ${new URL(location.href).protocol}`);
/** Answers late: what is current has to be kept by hand where nothing follows `await`. */
rpcFunction('page/askBack', async (by: number) => {
  const { caller } = callContext();
  await new Promise((resolve) => setTimeout(resolve, 5));
  const answer = await rpcAsync(caller.name, scale, [tensor([1, 2]), by], { agent });
  return answer.toArray();
});

const page = {
  async join(name: string, store: string, secret: string, initTimeoutMs = 10_000): Promise<string[]> {
    agent = await createAgent({
      name,
      store,
      membership: 'dynamic',
      security: { mode: 'hmac', secret },
      initTimeoutMs,
    });
    return agent.run(() => getWorkerInfos().map((worker) => worker.name));
  },
  async scale(to: string, size: number, by: number): Promise<[number, number, number]> {
    const x = tensor(new Float32Array(size).fill(1.5), { shape: [size] });
    const y = await rpcAsync(to, scale, [x, by], { agent });
    const data = y.dataSync();
    return [data.length, Number(data[0]), Number(data[size - 1])];
  },
  async errors(to: string): Promise<unknown[]> {
    const thrown: unknown = await rpcAsync(to, fail, ['too far: é'], { agent }).catch((error: unknown) => error);
    const late: unknown = await rpcAsync(to, hang, [], { agent, timeoutMs: 50 }).catch((error: unknown) => error);
    const nobody: unknown = await rpcAsync('nobody', fail, [''], { agent }).catch((error: unknown) => error);
    return [thrown instanceof RangeError, (thrown as Error).message, rpcInfo(late)?.code, rpcInfo(nobody)?.code];
  },
  async stream(to: string): Promise<number[]> {
    const items: number[] = [];
    for await (const item of rpcStream(to, count, [50], agent === undefined ? {} : { agent })) items.push(item);
    return items;
  },
  async meet(workers: string[]): Promise<string> {
    await barrier({ workers, timeoutMs: 10_000, agent });
    return 'met';
  },
  async leave(): Promise<void> {
    await agent?.shutdown();
    agent = undefined;
  },
};
Object.assign(globalThis, { backwire: page });
export type Page = typeof page;
