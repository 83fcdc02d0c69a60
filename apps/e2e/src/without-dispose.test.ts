/** @file `using` where the engine has no `Symbol.dispose`: a compiler lowers it, and finds what it looks for. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'esbuild';
import { expect, test } from 'vitest';
import { run } from './workspace.ts';

const PROGRAM = `
import { createAgent, data, distAutograd, ones, remote, rpcFunction, rpcStream, rpcSync, tensor } from 'backwire';
import { serveMetrics } from '@backwire/profiler';

const double = rpcFunction('double', (x) => x.mul(2));
let left = false;
const count = rpcFunction('count', function* () {
  try { for (let i = 0; ; i++) yield i; } finally { left = true; }
});
const made = [];
{
  using x = tensor([1, 2]);
  made.push(x);
  await using agent = await createAgent({ name: 'one', worldSize: 1, rank: 0, store: 'memory://one', transports: ['memory'] });
  await agent.run(async () => {
    using handle = remote('one', double, [x]);
    using y = await handle.toHere();
    made.push(y);
    await using metrics = await serveMetrics({ port: 0 });
    await using loader = new data.DataLoader([x]);
    await using stream = rpcStream('one', count);
    await stream.next();
    await distAutograd.context(async (id) => {
      using w = ones([2], { requiresGrad: true });
      await distAutograd.backward(id, [(await rpcSync('one', double, [w])).sum()]);
      using gradients = await distAutograd.getGradients(id);
      made.push(gradients.get(w));
    });
  });
}
console.log(JSON.stringify([typeof Symbol.dispose, made.map((each) => each.disposed), left, made.some((each) => 'undefined' in each)]));
`;

/** Symbol as it was: what it knows by other names than these. */
const OLD_SYMBOL = `
import { createRequire as of } from 'node:module';
const require = of(import.meta.url);
const Symbol = Object.assign((text) => globalThis.Symbol(text), Object.fromEntries(
  Object.getOwnPropertyNames(globalThis.Symbol)
    .filter((name) => !['length', 'name', 'prototype', 'dispose', 'asyncDispose'].includes(name))
    .map((name) => [name, globalThis.Symbol[name]])));
`;

test('tensors, references, agents, streams, gradients, loaders and servers are disposed of', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'backwire-dispose-'));
  const outfile = join(folder, 'program.mjs');
  await build({
    stdin: { contents: PROGRAM, resolveDir: import.meta.dirname },
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'es2022',
    conditions: ['@backwire/source'],
    banner: { js: OLD_SYMBOL },
    logLevel: 'error',
  });
  const { stdout, stderr } = await run(process.execPath, [outfile], { timeoutMs: 30_000 });
  rmSync(folder, { recursive: true });
  expect(stderr).toBe('');
  expect(JSON.parse(stdout)).toEqual(['undefined', [true, true, true], true, false]);
});
