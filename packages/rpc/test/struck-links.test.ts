/**
 * @file The first connection of two agents, struck at an exact byte of its handshake, its first calls or a tensor: the session goes on over
 * the next one, nothing is done twice, and only a handshake that was altered, which nobody can tell from another secret, fails its calls.
 */
import { Random, type ChaosProxy, type Strike } from '@backwire/testing';
import { full, type Tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { rpcAsync, rpcFunction, rpcInfo, rpcOneway, rpcSync, type Security } from '../src/index.ts';
import { startCluster } from './cluster.ts';
import { throughProxies } from './proxied.ts';

const runs = new Map<string, number>();
const notes = new Map<string, number[]>();
const work = rpcFunction('struck/work', (id: string, n: number) => {
  runs.set(id, (runs.get(id) ?? 0) + 1);
  return n * 7;
});
const double = rpcFunction('struck/double', (id: string, x: Tensor) => {
  runs.set(id, (runs.get(id) ?? 0) + 1);
  return x.mul(2);
});
const note = rpcFunction('struck/note', (id: string, n: number) => void notes.set(id, [...(notes.get(id) ?? []), n]));

let cases = 0;

/** BACKWIRE_STRIKE_SEEDS=3,4,5 draws other bytes. */
const SEEDS = (process.env['BACKWIRE_STRIKE_SEEDS'] ?? '1').split(',').map(Number);
const STRIKES = 8;
const ELEMENTS = 2_000;
/** Handshake, calls, tensor: of each direction. */
const BYTES = 9_000;
const secret = 'a secret of this test alone';
/** A link that says nothing for so long is cut. */
const liveness = { pingMs: 200, suspectMs: 1_000, deadMs: 2_000 };

interface Struck {
  readonly seed: number;
  readonly strike: Strike;
  readonly way: 'up' | 'down';
}

/** What became of the calls over links of which the first was struck; `undefined` where it was not, since fewer bytes went. */
async function strikeOnce(transport: string, security: Security, { seed, strike, way }: Struck): Promise<unknown> {
  const id = `case ${cases++}`;
  const cluster = await startCluster(2, { transports: [transport], security, liveness });
  const proxies: ChaosProxy[] = [];
  const watch = setInterval(() => {
    for (const proxy of proxies) if (proxy.struck > 0) proxy[way].strike = undefined;
  });
  try {
    await throughProxies(cluster.agents, seed, proxies);
    for (const proxy of proxies) proxy[way].strike = strike;
    const outcomes = await cluster.at(0).run(async () => {
      const calls = [0, 1, 2].map((n) => {
        rpcOneway('w1', note, [id, n]);
        return rpcAsync('w1', work, [`${id} ${n}`, n]).then((value) => value === n * 7);
      });
      const whole = rpcAsync('w1', double, [`${id} x`, full([ELEMENTS], 3)]).then((y) =>
        y.dataSync().every((value) => value === 6),
      );
      return Promise.all([...calls, whole].map((call) => call.catch((error: unknown) => rpcInfo(error)?.code)));
    });
    if (proxies.every(({ struck }) => struck === 0)) return undefined;
    for (const [from, to] of [
      [0, 'w1'],
      [1, 'w0'],
    ] as const)
      expect(await cluster.at(from).run(() => rpcSync(to, work, ['', 1]))).toBe(7);
    const own = [...runs].filter(([call]) => call.startsWith(`${id} `));
    return { outcomes, runs: own.map(([, count]) => count), notes: notes.get(id) };
  } finally {
    clearInterval(watch);
    await cluster.close();
    for (const proxy of proxies) await proxy.close();
  }
}

const well = { outcomes: [true, true, true, true], runs: [1, 1, 1, 1], notes: [0, 1, 2] };
const refused = { outcomes: Array<string>(4).fill('unauthenticated'), runs: [], notes: undefined };

describe.each<[string, string, Security, readonly Strike['how'][]]>([
  ['a Unix socket', 'unix', { mode: 'hmac', secret }, ['reset', 'end', 'lose']],
  ['TCP with checksums', 'tcp', { mode: 'hmac', secret, checksums: true }, ['reset', 'end', 'lose', 'flip']],
  ['TLS', 'tcp', { mode: 'psk', secret }, ['reset', 'end', 'lose', 'flip']],
])('a link over %s', (_name, transport, security, hows) => {
  it.each(hows.flatMap((how) => SEEDS.map((seed) => [how, seed] as const)))(
    'goes on over another when it is struck (%s, seed %i)',
    { timeout: 90_000 },
    async (how, seed) => {
      const random = new Random(`${seed} ${how}`);
      const drawn = Array.from({ length: STRIKES }, (_, i): Struck => {
        // Half of them in the handshake and the calls, which are few bytes.
        const at = random.int(0, i % 2 === 0 ? 1_200 : BYTES);
        return { seed, strike: { at, how }, way: random.pick(['up', 'down']) };
      });
      const found = await Promise.all(drawn.map(async (one) => [one, await strikeOnce(transport, security, one)]));
      for (const [one, became] of found)
        if (became !== undefined) {
          const allowed = how === 'flip' ? [well, refused] : [well];
          expect(allowed, JSON.stringify({ one, became })).toContainEqual(became);
        }
    },
  );
});
