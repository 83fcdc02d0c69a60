/** @file TensorFlow.js and its kernels are loaded by what first needs them, and by nothing else. */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { backendName } from '../index.ts';

/** Inside of the package, so that TensorFlow.js is found from there. */
const folder = join(import.meta.dirname, '../../test-output', `loading-${process.pid}`);
const bundle = join(folder, 'tensor.mjs');

beforeAll(async () => {
  mkdirSync(folder, { recursive: true });
  // One file: it starts in a tenth of the time that the sources take.
  await build({
    entryPoints: [join(import.meta.dirname, '../index.ts')],
    outfile: bundle,
    bundle: true,
    platform: 'node',
    format: 'esm',
    packages: 'external',
    logLevel: 'error',
  });
});
afterAll(() => rmSync(folder, { recursive: true }));

const PRELUDE = `
import { createRequire } from 'node:module';
import * as bw from ${JSON.stringify(pathToFileURL(bundle).href)};
const { cache } = createRequire(import.meta.url);
/** The packages of TensorFlow.js that are loaded, by the last word of their names. */
const loaded = () => [...new Set(Object.keys(cache).map((file) => /@tensorflow\\/tfjs-(?:backend-)?(\\w+)/.exec(file)?.[1]).filter(Boolean))].sort();
const say = (value) => console.log(JSON.stringify(value));
`;

let programs = 0;

/** Runs a program in a process of its own; answers what it said, one value a line. */
async function run(program: string, backend?: string): Promise<unknown[]> {
  const env: NodeJS.ProcessEnv = { ...process.env, NODE_OPTIONS: '' };
  delete env['BACKWIRE_BACKEND'];
  if (backend !== undefined) env['BACKWIRE_BACKEND'] = backend;
  if (backend === 'tensorflow')
    env['NODE_PATH'] = join(import.meta.dirname, '../../node_modules/.tensorflow/node_modules');
  const file = join(folder, `program-${programs++}.mjs`);
  writeFileSync(file, PRELUDE + program);
  const { stdout } = await promisify(execFile)(process.execPath, [file], { env });
  return stdout
    .split('\n')
    .filter((line) => /^[[{"\d]|^(true|false|null)$/.test(line))
    .map((line) => JSON.parse(line) as unknown);
}

/** The backend that is chosen where nobody says one. */
let first = '';
beforeAll(async () => {
  [first] = (await run('say(bw.backendName())')) as [string];
});

/** Everything a worker may do without a product or a large operation in float32. */
const WITHOUT_KERNELS = `
bw.manualSeed(1);
const large = bw.randn([300, 300]);
large.to('float64').mul(2).sum().item(); large.toArray(); large.contiguous(); large.slice(0, 0, 2).clone(); large.to('int32').sum().item();
bw.tensor([1, 2, 3]).mul(2).exp().matmul(bw.tensor([1, 1, 1])).item();
const parameter = new bw.Parameter(bw.randn([20, 20]));
parameter.grad = bw.zerosLike(parameter);
new bw.optim.Adam([parameter], { lr: 0.1 }).step();
`;

describe('kernels', () => {
  it('are not loaded by the import, by small operations or in other dtypes', async () => {
    expect(await run(`say(loaded());${WITHOUT_KERNELS}say(loaded());`)).toEqual([[], []]);
  });

  it.each([
    ['a product', 'const x = bw.ones([40, 40]); x.matmul(x);'],
    ['an operation on many elements', 'bw.ones([3000]).mul(2);'],
    ['asking for the name', 'bw.backendName();'],
    ['setBackend', "await bw.setBackend('auto');"],
  ])('are loaded by %s', async (_, line) => {
    expect(await run(`${line} say(loaded()); say(bw.backendName());`)).toEqual([['core', 'wasm'], first]);
  });

  it('are never loaded where the cpu backend was chosen, by setBackend or the environment', async () => {
    const program = 'const x = bw.ones([200, 200]); x.matmul(x).mul(2); say(loaded()); say(bw.backendName());';
    expect(await run(`await bw.setBackend('cpu'); ${program}`)).toEqual([[], 'cpu']);
    expect(await run(program, 'cpu')).toEqual([[], 'cpu']);
  });

  it("are those that the environment names, also for a program that asks for 'auto'", async () => {
    const program = "await bw.setBackend('auto'); say(bw.backendName());";
    for (const name of ['cpu', 'wasm']) expect(await run(program, name)).toEqual([name]);
    // What the program says by name is what it gets.
    expect(await run("await bw.setBackend('cpu'); say(bw.backendName());", 'wasm')).toEqual(['cpu']);
    const [said] = await run("await bw.setBackend('auto').then(() => say('had'), (e) => say(e.message));", 'webgpu');
    // With an adapter it is had.
    expect(said).toMatch(/^had$|webgpu backend did not start/);
  });

  it('give the same bits whenever they were loaded', async () => {
    const program = `
      bw.manualSeed(3);
      const x = bw.randn([70, 70], { requiresGrad: true });
      const y = x.matmul(x).tanh().mul(x).sum();
      y.backward();
      say([y.item(), ...x.grad.dataSync()]);`;
    const late = await run(program);
    expect(await run(`bw.backendName(); ${program}`)).toEqual(late);
    expect(await run(`await bw.setBackend('auto'); ${program}`)).toEqual(late);
    expect(await run(`await bw.setBackend('cpu'); ${program}`)).not.toEqual(late);
  });

  it('leave listeners of uncaught errors to the program', async () => {
    expect(
      await run(`
        process.on('uncaughtException', (error) => say([error.message, process.listenerCount('unhandledRejection')]));
        bw.backendName();
        setTimeout(() => { throw new Error('mine'); }, 0);`),
    ).toEqual([['mine', 0]]);
  });

  it('say why they cannot be had, at the first operation that needs them', async () => {
    const program = `
      const x = bw.ones([200, 200]);
      try { x.matmul(x); } catch (error) { say([error.constructor.name, error.message]); }
      await bw.setBackend('cpu');
      say(x.matmul(x).sum().item());`;
    const [error, sum] = await run(program, 'webgpu').catch(() => []);
    // With an adapter there is nothing to say.
    if (Array.isArray(error))
      expect(error).toEqual(['TensorError', expect.stringMatching(/webgpu backend did not start/)]);
    expect(sum ?? error).toBe(8_000_000);
  });

  it('say in one line what computes, and why not something faster', async () => {
    const [line] = await run('say([bw.describeBackend(), bw.backendName()])');
    const [text, name] = line as [string, string];
    expect(text).toMatch(
      new RegExp(`^computing with ${name}(?: \\(.+\\))?, \\d+ threads? a kernel(?:; products would .+)?$`),
    );
    const refused = "process.env.BACKWIRE_BLAS = '/nowhere/libblas.so'; say([bw.describeBackend()]);";
    // Where native TensorFlow is installed, nothing else is tried.
    if (name !== 'tensorflow') {
      const [[why]] = (await run(refused)) as [[string]];
      expect(why).toMatch(
        /^computing with wasm, 1 thread a kernel; products would be faster with a BLAS, but (BLAS \/nowhere\/libblas\.so was refused: .+|the blas backend needs the package 'koffi': npm install koffi)$/,
      );
    }
    expect(await run('say([bw.describeBackend()])', 'cpu')).toEqual([['computing with cpu, 1 thread a kernel']]);
  });

  it('of no BLAS are said to be so', async () => {
    const program = `
      process.env.BACKWIRE_BLAS = 'none';
      const x = bw.ones([100, 100]);
      try { x.matmul(x); } catch (error) { say([error.constructor.name, error.message]); }`;
    const [error] = await run(program, 'blas');
    const why = expect.stringMatching(
      /^(BACKWIRE_BLAS is none|the blas backend needs the package 'koffi'.*)$/,
    ) as string;
    expect(error).toEqual(['TensorError', why]);
  });

  // Its own products are tested by the rest of the suite, without a BLAS.
  it.runIf(backendName() === 'tensorflow')(
    'of native TensorFlow take products from a BLAS where there is one',
    async () => {
      const program = (blas: string): string => `
      ${blas}
      const x = bw.arange(64 * 300).remainder(7).to('float32').reshape([64, 300]);
      const images = bw.arange(40 * 8 * 81).remainder(5).to('float32').reshape([40, 8, 9, 9]);
      const filters = bw.arange(16 * 8 * 9).remainder(3).to('float32').reshape([16, 8, 3, 3]);
      const values = [x.matmul(x.t()), bw.conv2d(images, filters)].map((y) => y.mul(y).sum().item());
      const tf = await import('@tensorflow/tfjs-core');
      const lifted = bw.lift((t) => tf.square(t))(bw.tensor([3])).toArray();
      say([bw.describeBackend(), ...values, lifted, tf.getBackend()]);`;
      const [[own, ...expected]] = (await run(program("process.env.BACKWIRE_BLAS = 'none';"), 'tensorflow')) as [
        unknown[],
      ];
      expect(own).toMatch(
        /^computing with tensorflow \(.*(libtensorflow|tfjs-node).*\), \d+ threads? a kernel; products would be faster with a BLAS, but (BACKWIRE_BLAS is none|the blas backend needs the package 'koffi'.*)$/,
      );
      const [[beside, ...values]] = (await run(program('delete process.env.BACKWIRE_BLAS;'), 'tensorflow')) as [
        unknown[],
      ];
      const [blas] = await run('delete process.env.BACKWIRE_BLAS; say([bw.describeBackend()])', 'blas').catch(() => []);
      // Where there is none, everything is as without.
      if (Array.isArray(blas)) expect(beside).toBe(String(blas[0]).replace('with blas', 'with tensorflow'));
      expect(values).toEqual(expected);
      expect(values.slice(2)).toEqual([[9], 'tensorflow']);
    },
  );

  it('have as many threads as they are told, else their share of the processors', async () => {
    const program = `
      delete process.env.OMP_NUM_THREADS;
      const all = bw.getNumThreads();
      process.env.LOCAL_WORLD_SIZE = '1000000';
      const share = bw.getNumThreads();
      process.env.OMP_NUM_THREADS = '3';
      const given = bw.getNumThreads();
      bw.setNumThreads(2);
      const x = bw.randn([300, 300]);
      const product = x.matmul(x).sum().item();
      let error;
      try { bw.setNumThreads(0); } catch (e) { error = e.message; }
      say([all >= 1, share, given, bw.getNumThreads(), Number.isFinite(product), error]);`;
    const why = 'a number of threads must be a whole number of at least 1, got 0';
    expect(await run(program)).toEqual([[true, 1, 3, 2, true, why]]);
  });

  it('of an unknown name are refused by the import', async () => {
    await expect(run('say(1)', 'gpu')).rejects.toThrow("BACKWIRE_BACKEND is 'gpu'; expected auto, cpu, wasm");
  });
});

describe('TensorFlow.js', () => {
  it('is loaded by what crosses to it, with all of its own kernels', async () => {
    const program = `
      say(loaded());
      const tf = await import('@tensorflow/tfjs-core');
      const f = bw.lift((x) => tf.unsortedSegmentSum(tf.square(x), tf.tensor1d([0, 1, 0], 'int32'), 2));
      say(f(bw.tensor([1, 2, 3])).toArray());
      say([tf.getBackend(), loaded()]);`;
    expect(await run(program)).toEqual([[], [10, 4], ['wasm', ['core', 'cpu', 'wasm']]]);
    expect(await run(program, 'cpu')).toEqual([[], [10, 4], ['cpu', ['core', 'cpu']]]);
  });

  const own = `
    const tf = await import('@tensorflow/tfjs-core');
    const x = tf.tensor([1, 2]);
    say([bw.fromTf(tf.mul(x, 2)).toArray(), tf.getBackend()]);`;

  it("has this package's backend where the program names none, loaded before the package or after", async () => {
    expect(await run(own)).toEqual([[[2, 4], 'wasm']]);
    expect(await run(own, 'cpu')).toEqual([[[2, 4], 'cpu']]);
    const before = `import '@tensorflow/tfjs-core';\n`;
    expect(await run(before + own)).toEqual([[[2, 4], 'wasm']]);
  });

  it('keeps the backend that the program chose', async () => {
    const program = `
      const tf = await import('@tensorflow/tfjs-core');
      await import('@tensorflow/tfjs-backend-cpu');
      await tf.setBackend('cpu');
      const x = bw.ones([100, 100]);
      say(x.matmul(x).sum().item());
      say([bw.backendName(), tf.getBackend(), loaded().includes('wasm')]);`;
    expect(await run(program)).toEqual([1_000_000, [first, 'cpu', true]]);
  });

  it('shares its wasm backend where the program started it first', async () => {
    const program = `
      const tf = await import('@tensorflow/tfjs-core');
      await import('@tensorflow/tfjs-backend-wasm');
      await tf.setBackend('wasm');
      const x = bw.ones([100, 100]);
      say(x.matmul(x).sum().item());
      say(bw.fromTf(tf.matMul(x.toTf(), x.toTf())).sum().item());
      say(tf.engine().backend.numDataIds() > 2);`;
    expect(await run(program)).toEqual([1_000_000, 1_000_000, true]);
  });

  it('computes on the cpu in one file from where wasm cannot be started', async () => {
    const far = mkdtempSync(join(tmpdir(), 'backwire-loading-'));
    const outfile = join(far, 'program.mjs');
    await build({
      stdin: {
        contents: `
          import { mul } from '@tensorflow/tfjs-core';
          import { backendName, lift, ones, setBackend } from './index.ts';
          await setBackend('auto');
          const x = ones([2]);
          console.log(JSON.stringify([backendName(), Array.from(x.toTf().dataSync()), lift((t) => mul(t, 3))(x).toArray()]));`,
        resolveDir: join(import.meta.dirname, '..'),
      },
      outfile,
      bundle: true,
      platform: 'node',
      format: 'esm',
      // TensorFlow.js requires parts of Node, which esbuild's modules can do only so.
      banner: { js: "import { createRequire as of } from 'node:module'; const require = of(import.meta.url);" },
      logLevel: 'error',
    });
    const { stdout } = await promisify(execFile)(process.execPath, [outfile], {
      env: { ...process.env, NODE_OPTIONS: '', BACKWIRE_BACKEND: 'auto' },
    });
    rmSync(far, { recursive: true });
    expect(JSON.parse(stdout.split('\n').find((line) => line.startsWith('[')) ?? '')).toEqual(['cpu', [1, 1], [3, 3]]);
  });
});
