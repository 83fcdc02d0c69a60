/** @file Agents in one process call each other. */
import { afterEach, describe, expect, it } from 'vitest';
import { tensor, type Tensor } from '@backwire/tensor';
import {
  barrier,
  callContext,
  createAgent,
  rpcAsync,
  rpcFunction,
  RpcError,
  rpcInfo,
  rpcStream,
  type RpcAgent,
  type RpcOptions,
} from '../index.ts';

const scale = rpcFunction('agent-test/scale', (x: Tensor, by: number) => x.mul(by));
const echo = rpcFunction('agent-test/echo', (x: unknown) => x);
const fail = rpcFunction('agent-test/fail', (text: string): void => {
  throw new RangeError(text);
});
const count = rpcFunction('agent-test/count', async function* (to: number) {
  for (let i = 0; i < to; i++) yield i;
});
const who = rpcFunction('agent-test/who', () => callContext().caller.name);

let groups = 0;
const open: RpcAgent[] = [];
async function group(size: number, options: Partial<RpcOptions> = {}): Promise<RpcAgent[]> {
  const store = `memory://agent-test-${groups++}`;
  const agents = await Promise.all(
    Array.from({ length: size }, (_, rank) =>
      createAgent({ name: `w${rank}`, rank, worldSize: size, store, ...options }),
    ),
  );
  open.push(...agents);
  return agents;
}
afterEach(async () => {
  await Promise.all(open.splice(0).map((agent) => agent.shutdown({ timeoutMs: 5_000 })));
});

describe('agents in one process', () => {
  it('call each other with tensors', async () => {
    const [a] = await group(2);
    const y = await a!.run(() => rpcAsync('w1', scale, [tensor([1, 2, 3]), 2]));
    expect([...(await y.data())]).toEqual([2, 4, 6]);
  });

  it('call themselves through the same path', async () => {
    const [a] = await group(1);
    const x = { list: [1, 2, 3] };
    const y = await a!.run(() => rpcAsync('w0', echo, [x]));
    expect(y).toEqual(x);
    expect(y).not.toBe(x);
  });

  it('give a large tensor back', async () => {
    const [a] = await group(2);
    const x = tensor(new Float32Array(300_000).fill(1.5), { shape: [300_000] });
    const y = await a!.run(() => rpcAsync('w1', scale, [x, 2]));
    const data = await y.data();
    expect(data.length).toBe(300_000);
    expect(data.every((v) => v === 3)).toBe(true);
  });

  it('rebuild what a handler threw', async () => {
    const [a] = await group(2);
    const error = await a!.run(() => rpcAsync('w1', fail, ['too far: é'])).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(RangeError);
    expect((error as Error).message).toBe('too far: é');
    expect(rpcInfo(error)?.code).toBe('remote-error');
    expect(rpcInfo(error)?.peer?.name).toBe('w1');
  });

  it('say what nobody has defined', async () => {
    const [a] = await group(2);
    const error = await a!.run(() => rpcAsync('w9', echo, [1])).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(RpcError);
    expect((error as Error).message).toContain('could not find destination');
  });

  it('stream', async () => {
    const [a] = await group(2);
    const seen: number[] = [];
    await a!.run(async () => {
      for await (const i of rpcStream('w1', count, [100])) seen.push(i);
    });
    expect(seen).toEqual(Array.from({ length: 100 }, (_, i) => i));
  });

  it('meet at a barrier and know who calls', async () => {
    const agents = await group(3);
    await Promise.all(agents.map((agent) => agent.run(() => barrier({ timeoutMs: 5_000 }))));
    expect(await agents[2]!.run(() => rpcAsync('w0', who))).toBe('w2');
  });
});
