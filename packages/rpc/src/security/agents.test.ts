/** @file Agents over every transport and in every security mode: calls with tensors work, and strangers do not get in. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { tensor, type Tensor } from '@backwire/tensor';
import { createAgent, rpcAsync, rpcFunction, type RpcAgent, type RpcOptions, type Security } from '../index.ts';
import { cmaTransport } from '../transports/cma.ts';
import { serveStore } from '../stores/embedded-server.ts';

const scale = rpcFunction('security-test/scale', (x: Tensor, by: number) => x.mul(by));
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

const directory = mkdtempSync(join(tmpdir(), 'backwire-test-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Certificates for w0 and w1, made by the openssl program; false where there is none. */
function makeCertificates(): boolean {
  const run = (...args: string[]): void => void execFileSync('openssl', args, { cwd: directory, stdio: 'ignore' });
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  try {
    run('req', '-x509', ...key, '-keyout', 'ca.key', '-out', 'ca.pem', '-days', '2', '-subj', '/CN=ca');
    for (const name of ['w0', 'w1']) {
      writeFileSync(join(directory, `${name}.ext`), `subjectAltName=DNS:${name}\n`);
      run('req', ...key, '-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', `/CN=${name}`);
      const signing = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2', '-extfile', `${name}.ext`];
      run('x509', '-req', '-in', `${name}.csr`, '-out', `${name}.pem`, ...signing);
    }
    return true;
  } catch {
    return false;
  }
}
const certified = makeCertificates();
const certificateOf = (name: string): Security => ({
  mode: 'mtls',
  key: readFileSync(join(directory, `${name}.key`), 'utf8'),
  cert: join(directory, `${name}.pem`),
  ca: join(directory, 'ca.pem'),
});

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

describe.skipIf(!certified)('certificates (made with openssl)', () => {
  test('let the workers they name call each other', async () => {
    await callsWork(await pair((rank) => ({ security: certificateOf(`w${rank}`), transports: ['tcp'] })));
  });

  test('do not let a worker pass for another', async () => {
    const [a] = await pair(() => ({ security: certificateOf('w0'), transports: ['tcp'] }));
    await expect(a.run(() => rpcAsync('w1', scale, [tensor([1]), 2]))).rejects.toMatchObject(refused);
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
