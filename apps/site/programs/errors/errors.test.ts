/** @file The texts on the page of errors are those that errors have. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  add,
  createAgent,
  createRRef,
  distAutograd,
  newIdempotencyKey,
  remote,
  remoteFunction,
  rpcFunction,
  rpcInfo,
  rpcSync,
  tensor,
  type RpcAgent,
} from 'backwire';
import { expect, it } from 'vitest';

const root = join(import.meta.dirname, '../../../..');
const page = readFileSync(join(root, 'docs/errors.md'), 'utf8');

/** The texts that the page shows, by code. */
const shown = new Map(
  page
    .split(/^### /m)
    .slice(1)
    .map((section) => [
      /^`([a-z-]+)`/.exec(section)?.[1] ?? '',
      [...section.matchAll(/^```text\n([\s\S]*?)\n```$/gm)].map(([, text = '']) => text),
    ]),
);

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
/** What a text with '…' for what differs each time stands for. A call adds its function and worker behind the code. */
const pattern = (text: string): RegExp =>
  new RegExp(`^(RPCErr:2:)?${text.split('…').map(escaped).join('.*')}( \\(calling '.*\\))?$`, 's');

/** Codes that need a second process, a network or another version: their words are looked for in the sources. */
const ELSEWHERE = new Set([
  'peer-died',
  'fenced',
  'barrier-broken',
  'unauthenticated',
  'version-mismatch',
  'decode-error',
  'protocol-error',
]);

async function pair(store: string, ...options: object[]): Promise<[RpcAgent, RpcAgent]> {
  const names = store === 'texts' ? ['worker0', 'worker1'] : ['f', 'g'];
  return (await Promise.all(
    names.map((name, rank) =>
      createAgent({ name, rank, worldSize: 2, store: `memory://${store}`, ...(options[rank] ?? {}) }),
    ),
  )) as [RpcAgent, RpcAgent];
}

/** Makes everything go wrong that can in one process; answers what was thrown. */
async function provoke(): Promise<unknown[]> {
  const thrown: unknown[] = [];
  const keep = (error: unknown): void => void thrown.push(error);
  const [a, b] = await pair('texts', {}, { serve: [] });
  class Odd extends Error {}
  const slow = rpcFunction('errors/slow', () => new Promise<void>(() => undefined));
  const echo = rpcFunction('errors/echo', (x: unknown) => x);
  const odd = rpcFunction('errors/odd', () => {
    throw new Odd('odd');
  });
  for (const fn of [slow, echo, odd]) b.register(fn);
  const held = await a.run(async () => {
    await rpcSync('worker1', slow, [], { timeoutMs: 50 }).catch(keep);
    await rpcSync('worker1', slow, [], { signal: AbortSignal.abort() }).catch(keep);
    await rpcSync('worker1', odd).catch(keep);
    await rpcSync('nobody', echo, [1]).catch(keep);
    await rpcSync('worker1', remoteFunction<() => void>('errors/nothing')).catch(keep);
    await rpcSync('worker1', add, [tensor([1]), 1]).catch(keep);
    await rpcSync('worker1', echo, [1], { timeout: 1 } as object).catch(keep);
    await Promise.resolve()
      .then(() => distAutograd.getGradients(5n))
      .catch(keep);
    const idempotencyKey = newIdempotencyKey();
    await rpcSync('worker1', echo, [1], { idempotencyKey });
    await rpcSync('worker1', echo, [2], { idempotencyKey }).catch(keep);
    const gone = createRRef(1);
    gone.dispose();
    await gone.toHere().catch(keep);
    const kept = remote('worker1', echo, [1]);
    await kept.confirmed();
    return kept;
  });
  await b.shutdown({ graceful: false });
  await a.run(async () => {
    await rpcSync('worker1', echo, [1]).catch(keep);
    await held.toHere().catch(keep);
  });
  await a.shutdown({ graceful: false });
  await rpcSync('worker1', echo, [1]).catch(keep);

  const [f, g] = await pair('bounds', { faults: { failFirst: { PYTHON_CALL: 1 } }, limits: { maxMessageBytes: 1000 } });
  await f.run(async () => {
    await rpcSync('g', echo, [1]).catch(keep);
    await rpcSync('g', echo, [tensor(new Float32Array(3000))]).catch(keep);
  });
  await Promise.all([f.shutdown(), g.shutdown()]);

  const open = { membership: 'dynamic', store: 'memory://open' } as const;
  const d0 = await createAgent({ name: 'd0', ...open });
  const d1 = await createAgent({ name: 'd1', ...open });
  const inflight = rpcSync('d1', slow, [], { agent: d0, timeoutMs: 1_000 }).catch(keep);
  await rpcSync('d1', echo, [1], { agent: d0 });
  const leaving = d1.shutdown({ timeoutMs: 2_000 }).catch(() => undefined);
  await expect
    .poll(() => rpcSync('d1', echo, [1], { agent: d0 }).catch((error: unknown) => rpcInfo(error)?.code))
    .toBe('draining');
  await rpcSync('d1', echo, [1], { agent: d0 }).catch(keep);
  await inflight;
  await leaving;
  await d0.shutdown({ graceful: false });

  await createAgent({ name: 'alone', rank: 0, worldSize: 2, store: 'memory://alone', initTimeoutMs: 100 }).catch(keep);
  await createAgent({
    name: 'x',
    rank: 0,
    worldSize: 1,
    store: 'memory://x',
    bind: '0.0.0.0',
    transports: ['tcp'],
  }).catch(keep);
  return thrown;
}

it('every text on the page is that of an error with its code', async () => {
  const thrown = await provoke();
  const unseen: string[] = [];
  for (const [code, texts] of shown)
    if (!ELSEWHERE.has(code))
      for (const text of texts)
        if (!thrown.some((error) => rpcInfo(error)?.code === code && pattern(text).test(rpcInfo(error)?.message ?? '')))
          unseen.push(text);
  const seen = thrown.map((error) => rpcInfo(error)?.message);
  expect(unseen, `seen:\n${seen.join('\n')}`).toEqual([]);
});

it('the words of the others are in the sources', () => {
  const sources = ['rpc', 'rref', 'dist-autograd']
    .flatMap((name) => {
      const folder = join(root, 'packages', name, 'src');
      return readdirSync(folder, { recursive: true, encoding: 'utf8' })
        .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
        .map((file) => readFileSync(join(folder, file), 'utf8'));
    })
    .join('\n');
  const missing = [...ELSEWHERE].flatMap((code) =>
    (shown.get(code) ?? [''])
      .map((text) => text.replace(` [${code}]`, '').replace('worker1', '…'))
      .map((text) => text.split('…').sort((x, y) => y.length - x.length)[0] ?? '')
      .filter((words) => words.length < 8 || !sources.includes(words)),
  );
  expect(missing).toEqual([]);
});
