/** @file Drawn programs of calls, streams and RRefs in scopes, to handlers in scopes: what comes is right, what belongs to somebody lives, nothing else is left. */
import { rpcAsync, rpcClass, rpcFunction, rpcStream, rpcSync, type RpcAgent } from '@backwire/rpc';
import { Random } from '@backwire/testing';
import { add, keep, memory, ones, rpcName, scope, type Tensor } from '@backwire/tensor';
import { registerValueType } from '@backwire/wire';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createRRef, remote, type RRef } from '../src/index.ts';
import { agent, eventually, startGroup } from './group.ts';

const scoped = { scope: true };

/** Everybody has it; a value of this class travels as its name and one tensor. */
const table = ones([3]);
const one = ones([1]);
class Named {
  readonly table = table;
  readonly sent: Tensor;
  constructor(sent: Tensor) {
    this.sent = sent;
  }
}
registerValueType({
  name: 'scoped-programs/Named',
  match: Named,
  encode: ({ sent }) => sent,
  decode: (sent) => new Named(sent as Tensor),
});

/** What the owners of RRefs, the readers of streams and `keep` have of the workers' making: the test lets it go. */
const held: Tensor[] = [];
const hold = (t: Tensor): Tensor => (held.push(t), t);

const plus = rpcFunction('scoped-programs/plus', (x: Tensor) => add(x, 1), scoped);
const later = rpcFunction('scoped-programs/later', async (x: Tensor) => {
  const y = x.mul(1);
  await new Promise((resolve) => setTimeout(resolve, 1));
  return y.add(1);
}, scoped); // prettier-ignore
const known = rpcFunction('scoped-programs/known', (x: Tensor) => (x.size > 0 ? table.mul(2) : table), scoped);
const named = rpcFunction('scoped-programs/named', ({ sent }: Named) => new Named(sent.add(1)), scoped);
const keeps = rpcFunction('scoped-programs/keeps', (x: Tensor) => keep(hold(x.add(1))), scoped);
const fails = rpcFunction('scoped-programs/fails', (x: Tensor): Tensor => {
  throw new RangeError(`no ${x.add(1).size}`);
}, scoped); // prettier-ignore
const makes = rpcFunction('scoped-programs/makes', (x: Tensor) => hold(x.add(1)), scoped);
const streams = rpcFunction('scoped-programs/streams', function* (x: Tensor) {
  for (let i = 0; i < 4; i++) yield hold(x.add(one));
}, scoped); // prettier-ignore
const streamsLater = rpcFunction('scoped-programs/streams_later', async function* (x: Tensor) {
  for (let i = 0; i < 4; i++) yield hold(await Promise.resolve(x.add(one)));
}, scoped); // prettier-ignore

class Service {
  static readonly [rpcName] = 'scoped-programs/Service';
  readonly one = ones([1]);
  plus(x: Tensor): Tensor {
    return x.add(this.one);
  }
  async named({ sent, table }: Named): Promise<Tensor[]> {
    await Promise.resolve();
    return [sent.add(this.one), table.add(1)];
  }
  makes(x: Tensor): Tensor {
    return hold(x.add(this.one));
  }
  *streams(x: Tensor): Generator<Tensor> {
    for (let i = 0; i < 4; i++) yield hold(x.add(this.one));
  }
}
rpcClass(Service, { methods: ['plus', 'named', 'makes', 'streams'], scope: true });

const firstOf = (t: Tensor): number => (t.toArray() as number[])[0] as number;

class Program {
  private readonly random: Random;
  private readonly services: readonly RRef<Service>[];
  private readonly name: string;
  private readonly running: Promise<unknown>[] = [];
  /** Tensors of outcomes that stay under their keys. */
  outcomes = 0;
  private keys = 0;

  constructor(seed: number, services: readonly RRef<Service>[]) {
    this.name = `seed ${seed}`;
    this.random = new Random(seed);
    this.services = services;
  }

  async run(): Promise<void> {
    await scope(() => this.steps(3));
    // What went on for itself, when no scope was left.
    for (let next = this.running.pop(); next !== undefined; next = this.running.pop()) await next;
    expect([table.disposed, ...held.map(({ disposed }) => disposed)].filter(Boolean).length).toBe(0);
    for (const t of held.splice(0)) t.dispose();
  }

  private async steps(depth: number): Promise<void> {
    for (let i = this.random.int(1, 6); i > 0; i--) {
      const kind = this.random.int(0, 10);
      if (kind < 7 || depth === 0) await this.step();
      else if (kind < 9) {
        const given = await scope(async () => {
          await this.steps(depth - 1);
          return rpcSync(this.to(), plus, [ones([2])]);
        });
        this.is(given, 2);
      } else this.running.push(scope(async () => this.goesOn()));
    }
  }

  /** Ends before its call is answered. */
  private goesOn(): { readonly answer: Promise<void> }[] {
    const x = keep(ones([this.size()]));
    const answer = rpcAsync(this.to(), later, [x]).then((y) => {
      this.is(y, 2);
      scope(() => y.add(1)).dispose();
      for (const t of [x, y]) t.dispose();
    });
    this.running.push(answer);
    return [{ answer }];
  }

  private async step(): Promise<void> {
    const [to, x] = [this.to(), ones([this.size()])];
    const service = this.random.pick(this.services);
    switch (this.random.int(0, 12)) {
      case 0:
        return this.is(await rpcSync(to, this.random.pick([plus, later]), [x]), 2);
      case 1:
        return this.is(await rpcSync(to, known, [x]), 2);
      case 2: {
        const back = await rpcSync(to, named, [new Named(x)]);
        this.is(back.sent, 2);
        return this.is(back.table, 1);
      }
      case 3:
        await expect(rpcSync(to, fails, [x])).rejects.toThrow('no ');
        return;
      case 4: {
        const options = { idempotencyKey: `${this.name} ${this.keys++}` };
        for (let i = this.random.int(1, 3); i > 0; i--) this.is(await rpcSync(to, plus, [x], options), 2);
        this.outcomes++;
        return;
      }
      case 5:
        return this.is(await rpcSync(to, keeps, [x]), 2);
      case 6:
        return this.items(rpcStream(to, this.random.pick([streams, streamsLater]), [x]));
      case 7:
        return this.items(service.rpcSync().streams(x));
      case 8:
        return this.is(await service.rpcSync().plus(x), 2);
      case 9: {
        for (const t of await service.rpcAsync().named(new Named(x))) this.is(t, 2);
        return;
      }
      case 10: {
        const { rref } = await scope(async () => {
          const rref = this.random.chance(0.5) ? remote(to, makes, [x]) : service.remote().makes(x);
          if (this.random.chance(0.5)) await rref.confirmed();
          return { rref };
        });
        this.is(await rref.toHere(), 2);
        rref.dispose();
        return;
      }
      default: {
        const own = createRRef(x);
        const second = await own.toHere();
        this.is(second, 1);
        own.dispose();
      }
    }
  }

  private async items(stream: AsyncIterable<Tensor>): Promise<void> {
    const most = this.random.int(1, 6);
    let seen = 0;
    for await (const item of stream) {
      this.is(item, 2);
      if (++seen === most) break;
    }
    expect(seen).toBe(Math.min(most, 4));
  }

  private is(t: Tensor, value: number): void {
    if (firstOf(t) !== value) throw new Error(`${this.name}: ${firstOf(t)} in place of ${value}`);
  }

  private to(): string {
    return this.random.pick(['w0', 'w1']);
  }

  private size(): number {
    return this.random.pick([2, 3, 20_000]);
  }
}

describe('drawn programs', () => {
  let agents: readonly RpcAgent[];
  beforeAll(async () => void (agents = await startGroup(2)));
  afterAll(() => Promise.all(agents.map((each) => each.shutdown({ timeoutMs: 10_000 }))));

  it('leave nothing, and take nothing that is somebody else’s', () =>
    agent(agents, 0).run(async () => {
      const services = [remote('w0', Service), remote('w1', Service)];
      await Promise.all(services.map((service) => service.confirmed()));
      let outcomes = 0;
      const { tensors } = memory();
      for (let seed = 1; seed <= 60; seed++) {
        const program = new Program(seed, services);
        await program.run().catch((error: unknown) => {
          throw new Error(`seed ${seed}`, { cause: error });
        });
        outcomes += program.outcomes;
        await eventually(() => memory().tensors <= tensors + outcomes, `seed ${seed}: what is left is let go`);
      }
      for (const service of services) service.dispose();
    }));
});
