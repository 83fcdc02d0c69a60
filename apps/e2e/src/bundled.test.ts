/** @file A worker in one file that a bundler has shaken: what peers may call is there, though its own program names none of it. */
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePorts } from '@backwire/testing';
import { add, createAgent, distAutograd, nn, optim, profiler, remote, rpcSync, tensor, type RpcAgent } from 'backwire';
import { build } from 'esbuild';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { published, root } from './workspace.ts';

const folder = mkdtempSync(join(tmpdir(), 'backwire-bundled-'));
let worker: ChildProcess;
let agent: RpcAgent;

beforeAll(async () => {
  const [port] = await freePorts(1);
  const options = { worldSize: 2, store: `tcp://127.0.0.1:${port}`, transports: ['unix'] };
  const outfile = join(folder, 'worker.mjs');
  await build({
    stdin: {
      contents: `
        import { initRpc, shutdown } from 'backwire';
        await initRpc(${JSON.stringify({ name: 'worker', rank: 1, ...options })});
        await shutdown();`,
      resolveDir: import.meta.dirname,
    },
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    conditions: ['@backwire/source'],
    // TensorFlow.js requires parts of Node, which esbuild's modules can do only so.
    banner: { js: "import { createRequire as of } from 'node:module'; const require = of(import.meta.url);" },
    logLevel: 'error',
  });
  worker = spawn(process.execPath, [outfile], { stdio: 'inherit' });
  agent = await createAgent({ name: 'caller', rank: 0, ...options });
}, 60_000);

afterAll(async () => {
  await agent.shutdown({ timeoutMs: 10_000 });
  worker.kill('SIGKILL');
  rmSync(folder, { recursive: true });
});

test('operations, and methods of what they give', async () => {
  await agent.run(async () => {
    const y = await rpcSync('worker', add, [tensor([1, 2]), 1]);
    expect(y.toArray()).toEqual([2, 3]);
    const kept = remote('worker', add, [tensor([1, 2]), 1]);
    expect((await kept.rpcSync().sum()).item()).toBe(5);
    const doubled = kept.remote().mul(2);
    expect((await doubled.toHere()).toArray()).toEqual([4, 6]);
    expect(await kept.typeName()).toBe('Tensor');
    kept.dispose();
    doubled.dispose();
  });
});

test('modules, and optimisers over their parameters', async () => {
  await agent.run(async () => {
    const module = await distAutograd.RemoteModule.create('worker', nn.Linear, [2, 1]);
    const parameters = await module.remoteParameters();
    const optimizer = await distAutograd.DistributedOptimizer.create(optim.SGD, parameters, { lr: 1 });
    const x = tensor([[3, 4]]);
    const before = (await module.forward(x)).item();
    await distAutograd.context(async (id) => {
      await distAutograd.backward(id, [(await module.forward(x)).sum()]);
      await optimizer.step(id);
    });
    expect((await module.forward(x)).item()).toBeCloseTo(before - 26, 4);
    for (const parameter of parameters) parameter.dispose();
  });
});

test('what profiles the worker', async () => {
  await agent.run(async () => {
    const watch = remote('worker', profiler.ServerProfiler, [{}]);
    await watch.rpcSync().enter();
    await rpcSync('worker', add, [tensor([1]), 1]);
    await watch.rpcSync().exit();
    expect(await watch.rpcSync().table()).toContain('aten::add');
    watch.dispose();
  });
});

/** A definition at the top of a module: it is made when the module is loaded, whether or not anybody uses what it gives. */
const DEFINES = /^(?:(?:export )?const \w+ = )?(?:systemFunction|rpcFunction|rpcClass|register\w+)\(/m;

test.each(published)("%s: the modules that define something are among the manifest's `sideEffects`", (name) => {
  const at = join(root, 'packages', name);
  const { sideEffects } = JSON.parse(readFileSync(join(at, 'package.json'), 'utf8')) as {
    sideEffects: false | string[];
  };
  const defining = readdirSync(join(at, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .filter((file) => DEFINES.test(readFileSync(join(at, 'src', file), 'utf8')))
    .map((file) => `./src/${file}`);
  const listed = sideEffects === false ? [] : sideEffects;
  expect(defining.filter((file) => !listed.includes(file))).toEqual([]);
  // A build makes one file of many modules, in whose name theirs are lost.
  expect(listed.includes('./dist/*.js')).toBe(listed.length > 0);
  // And, for bundlers, a file of each.
  const ofModules = (from: RegExp): string[] =>
    listed.filter((file) => from.test(file)).map((file) => file.replace(from, '').replace(/\.[jt]s$/, ''));
  expect(ofModules(/^\.\/dist\/modules\//)).toEqual(ofModules(/^\.\/src\//));
});
