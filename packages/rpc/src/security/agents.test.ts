/** @file Agents over every transport and in every security mode: calls with tensors work, and strangers do not get in. */
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { tensor, type Tensor } from '@backwire/tensor';
import { createAgent, rpcAsync, rpcFunction, type RpcAgent, type RpcOptions, type Security } from '../index.ts';
import { cmaTransport } from '../transports/cma.ts';
import { Inspector } from '../inspection/inspector.ts';
import { serveStore } from '../stores/embedded-server.ts';
import { Certificates, hasOpenssl, type CertificateOptions } from '../../test/certificates.ts';

const scale = rpcFunction('security-test/scale', (x: Tensor, by: number) => x.mul(by));
let calls = 0;
const count = rpcFunction('security-test/count', () => ++calls);
const secret = 'sixteen bytes and more';

const open: RpcAgent[] = [];
const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((agent) => agent.shutdown({ graceful: false, timeoutMs: 5_000 })));
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

let groups = 0;
async function pair(options: (rank: number) => Partial<RpcOptions>): Promise<[RpcAgent, RpcAgent]> {
  const store = `memory://security-test-${groups++}`;
  const start = (rank: number): Promise<RpcAgent> =>
    createAgent({ name: `w${rank}`, rank, worldSize: 2, store, initTimeoutMs: 20_000, ...options(rank) });
  const agents = await Promise.all([start(0), start(1)]);
  open.push(...agents);
  return agents;
}

const certificates = hasOpenssl ? new Certificates().make('w0').make('w1') : undefined;
afterAll(() => certificates?.remove());
const certificateOf = (name: string): Security => (certificates as Certificates).security(name);

async function callsWork([a]: [RpcAgent, RpcAgent]): Promise<void> {
  const small = await a.run(() => rpcAsync('w1', scale, [tensor([1, 2, 3]), 2]));
  expect([...(await small.data())]).toEqual([2, 4, 6]);
  const large = tensor(new Float32Array(700_000).fill(1.5), { shape: [700, 1000] });
  const [one, two] = await Promise.all([1, 2].map((by) => a.run(() => rpcAsync('w1', scale, [large, by]))));
  expect((await one?.data())?.at(-1)).toBe(1.5);
  expect((await two?.data())?.at(-1)).toBe(3);
}

const modes: [string, Security][] = [
  ['psk', { mode: 'psk', secret }],
  ['hmac', { mode: 'hmac', secret }],
  ['none', { mode: 'none', iUnderstand: true }],
];
describe.each(modes)('mode %s', (_, security) => {
  test.each(['tcp', 'unix', 'ws', 'memory', ...(cmaTransport().isViable() ? ['cma'] : [])])(
    'over %s',
    async (transport) => {
      await callsWork(await pair(() => ({ security, transports: [transport] })));
    },
  );
});

/** At once, not at the call's deadline of a minute. */
const refused = { code: 'unauthenticated', executed: 'no' };

describe.skipIf(!hasOpenssl)('certificates (made with openssl)', () => {
  test('let the workers they name call each other', async () => {
    await callsWork(await pair((rank) => ({ security: certificateOf(`w${rank}`), transports: ['tcp'] })));
  });

  test('do not let a worker pass for another', async () => {
    const [a] = await pair(() => ({ security: certificateOf('w0'), transports: ['tcp'] }));
    await expect(a.run(() => rpcAsync('w1', scale, [tensor([1]), 2]))).rejects.toMatchObject(refused);
  });

  /** What an authority may put its name to, that is not worker w1's. */
  const others: Record<string, CertificateOptions> = {
    'a URI with the name in it': { alternative: 'URI:spiffe://corp/team-a/DNS:w1' },
    'a common name alone': { alternative: undefined },
    'an e-mail address': { alternative: 'email:w1' },
    'a DNS name with a comma': { alternative: '@names\n[names]\nDNS.1=evil\\,DNS:w1' },
    'a wildcard': { alternative: 'DNS:*' },
  };
  test.each(Object.entries(others))('do not make w1 of who has %s, on either side', async (name, options) => {
    const file = `impostor-${name.replaceAll(' ', '-')}`;
    certificates?.make(file, { subject: 'w1', ...options });
    const warned: string[] = [];
    const log = (o: object): void => void warned.push(JSON.stringify(o));
    const logger = { debug: () => undefined, info: () => undefined, warn: log, error: log };
    const [honest, impostor] = await pair((rank) => ({
      security: certificateOf(rank === 0 ? 'w0' : file),
      transports: ['tcp'],
      logger,
    }));
    calls = 0;
    await expect(impostor.run(() => rpcAsync('w0', count))).rejects.toMatchObject(refused);
    await expect(honest.run(() => rpcAsync('w1', count))).rejects.toMatchObject(refused);
    expect(calls).toBe(0);
    expect(warned.join()).toContain("is not worker 'w1's");
  });
});

describe.skipIf(!hasOpenssl)('a certificate that does not hold', () => {
  const made = hasOpenssl ? new Certificates(['ca', 'other']).make('w0') : undefined;
  afterAll(() => made?.remove());
  /** Each is refused by whoever is dialled, by whoever dials, or by both. */
  const cases: [string, CertificateOptions, refusedBy: readonly ('dialled' | 'dialling')[]][] = [
    ['another authority', { authority: 'other' }, ['dialled', 'dialling']],
    ['who signs and may not', { authority: 'w0' }, ['dialled', 'dialling']],
    ['no purpose but to answer', { purpose: 'serverAuth' }, ['dialled']],
    ['no purpose but to dial', { purpose: 'clientAuth' }, ['dialling']],
  ];
  const ways = cases.flatMap(([what, options, by]) => by.map((side) => [what, side, options] as const));
  test.each(ways)('by %s is told at once, by who is %s', async (what, side, options) => {
    const file = `${what} ${side}`.replaceAll(' ', '-');
    made?.make(file, { alternative: 'DNS:w1', ...options });
    const [w0, w1] = await pair((rank) => ({
      security: (made as Certificates).security(rank === 0 ? 'w0' : file),
      transports: ['tcp'],
    }));
    calls = 0;
    const call = side === 'dialled' ? w1.run(() => rpcAsync('w0', count)) : w0.run(() => rpcAsync('w1', count));
    await expect(call).rejects.toMatchObject(refused);
    expect(calls).toBe(0);
  });
});

test.each(['tcp', 'unix', 'ws'])('a worker with another secret is not called over %s', async (transport) => {
  const secrets = [secret, 'another secret, as long as it'];
  const [a] = await pair((rank) => ({
    security: { mode: 'hmac', secret: secrets[rank] ?? '' },
    transports: [transport],
  }));
  await expect(a.run(() => rpcAsync('w1', scale, [tensor([1]), 2]))).rejects.toMatchObject(refused);
});

test('the group meets in a store that asks for the secret', async () => {
  const server = await serveStore({ secret });
  cleanups.push(() => server.close());
  process.env['BACKWIRE_STORE_HOSTED'] = '1';
  cleanups.push(() => delete process.env['BACKWIRE_STORE_HOSTED']);
  const store = `tcp://127.0.0.1:${server.port}`;
  await callsWork(await pair(() => ({ security: { mode: 'psk', secret }, store, transports: ['tcp'] })));
  const stranger = createAgent({
    name: 'w3',
    store,
    security: { mode: 'psk', secret: 'another secret, as long as it' },
  });
  await expect(stranger).rejects.toMatchObject({ code: 'unauthenticated' });
});

test.skipIf(!hasOpenssl)(
  'workers with certificates meet in the store of a launcher, which has the secret alone',
  async () => {
    const server = await serveStore({ host: '0.0.0.0', secret });
    cleanups.push(() => server.close());
    for (const [name, value] of [
      ['BACKWIRE_STORE_HOSTED', '1'],
      ['BACKWIRE_SECRET', secret],
    ] as const) {
      process.env[name] = value;
      cleanups.push(() => delete process.env[name]);
    }
    const store = `tcp://0.0.0.0:${server.port}`;
    await callsWork(await pair((rank) => ({ security: certificateOf(`w${rank}`), store, transports: ['tcp'] })));
    // Who only looks has not got the variable of the workers, and gives the address that the launcher printed.
    delete process.env['BACKWIRE_STORE_HOSTED'];
    const looks = Inspector.open({ endpoint: `${store}?prefix=backwire/runs/r/`, security: certificateOf('w0') });
    await expect(looks).rejects.toMatchObject({ code: 'not-found' });
  },
);

test('beyond loopback without a secret there is no agent', async () => {
  const before = process.env['BACKWIRE_SECRET'];
  delete process.env['BACKWIRE_SECRET'];
  try {
    await expect(createAgent({ name: 'w', worldSize: 1, bind: '0.0.0.0', store: 'memory://x' })).rejects.toMatchObject({
      code: 'invalid-argument',
    });
  } finally {
    if (before !== undefined) process.env['BACKWIRE_SECRET'] = before;
  }
});
