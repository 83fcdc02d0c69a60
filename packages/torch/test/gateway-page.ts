/** @file A page that calls Python through a gateway, for tests: what the test asks of it goes through `window.page`. */
import { rrefs, type RRef } from '@backwire/rref';
import { tensor, type Tensor } from '@backwire/tensor';
import { createAgent, rpcInfo, type RpcAgent } from '@backwire/rpc';
import { PyComplex, py, throughGateway } from '../src/gateway.ts';

interface Counter {
  add(n: number): number;
}

const python = throughGateway('gateway');
const scale = py<(x: Tensor, by: number) => Tensor>('page.scale');
const same = py<(value: unknown) => unknown>('page.same');
const counter = py<Counter>('page.Counter');
let agent: RpcAgent | undefined;
let held: RRef<Counter> | undefined;

const page = {
  async join(store: string, secret: string): Promise<void> {
    agent = await createAgent({
      name: 'page',
      store,
      membership: 'dynamic',
      security: { mode: 'hmac', secret },
      serve: [],
      extensions: [rrefs()],
      initTimeoutMs: 10_000,
    });
  },
  async scale(size: number, by: number): Promise<unknown[]> {
    const x = tensor(new Float32Array(size).fill(1.5));
    const y = await python.rpcSync('n1', scale, [x, by], { agent });
    return [y.size, y.sum().item()];
  },
  async same(): Promise<boolean> {
    const value = await python.rpcSync('n1', same, [[new PyComplex(1, 2), py.float(2)]], { agent });
    const [complex, float] = value as [PyComplex, number];
    return complex instanceof PyComplex && complex.imag === 2 && float === 2;
  },
  async count(): Promise<unknown[]> {
    held = python.remote('n1', counter, [40], { agent });
    return [held.ownerName(), await held.rpcSync().add(1), await held.remote().add(1).toHere()];
  },
  drop(): void {
    held?.dispose();
  },
  async refused(): Promise<unknown[]> {
    const error: unknown = await python
      .rpcSync('n1', py('os.system'), ['true'], { agent })
      .catch((thrown: unknown) => thrown);
    const fails: unknown = await python
      .rpcSync('n1', counter as unknown as typeof scale, [-1 as never, 0], { agent })
      .catch((thrown: unknown) => thrown);
    return [rpcInfo(error)?.code, fails instanceof RangeError, (fails as Error).message];
  },
};
Object.assign(globalThis, { page });
export type Page = typeof page;
