/** @file The programs that run on every runtime from the packages as they are published, each with what it has to answer. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, delimiter, dirname, join } from 'node:path';
import { CHROMIUM, chromiumOptions, freePorts, type Runtime } from '@backwire/testing';
import { build } from 'esbuild';
import { chromium, type Browser } from 'playwright-core';
import { expect, test, type ExpectStatic } from 'vitest';
import { root } from '../workspace.ts';
import { cleanEnvironment } from './project.ts';

/** Where a program runs: a project with the packages installed, and what runs it. */
export interface Place {
  readonly folder: string;
  readonly runtime: Runtime;
}

/** One of them. `run` resolves with what the program answered. */
interface Program {
  readonly name: string;
  run(place: Place): Promise<unknown>;
  /** Throws unless the answer is right. */
  readonly check: (answer: unknown, expect: ExpectStatic) => void;
  /** Why it cannot run on this machine. */
  readonly missing?: string | undefined;
}

/** A project, with the Node of this process. */
export const here = (folder: string): Place => ({
  folder,
  runtime: { executable: process.execPath, folder: dirname(process.execPath), flags: [] },
});

/** A runtime from npm's registry. Without that there is only the Node of this process, and tests are skipped; a CI has it. */
export async function available(what: string, runtime: Promise<Runtime>): Promise<Runtime | undefined> {
  try {
    return await runtime;
  } catch (error) {
    if (process.env['CI'] !== undefined) throw error;
    console.log(`${what} cannot be had, its tests are skipped: ${String(error)}`);
    return undefined;
  }
}

const PROGRAM_MS = 120_000;

/** Answers what the program said after 'answer '. @throws Error with all it said when it ended otherwise or in time not at all. */
export async function answerOf(child: ChildProcess): Promise<unknown> {
  let said = '';
  const streams = [child.stdout, child.stderr];
  for (const stream of streams) stream?.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  const answer = /answer (.*)/.exec(said)?.[1];
  if (code !== 0) throw new Error(`exit code ${code}:\n${said}`);
  return answer === undefined ? undefined : JSON.parse(answer);
}

/** Starts a program. */
export function start(
  { folder, runtime }: Place,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): ChildProcess {
  return spawn(runtime.executable, [...runtime.flags, ...args], {
    cwd: folder,
    env: {
      ...cleanEnvironment(),
      PATH: `${runtime.folder}${delimiter}${process.env['PATH'] ?? ''}`,
      ...env,
    },
    timeout: PROGRAM_MS,
    killSignal: 'SIGKILL',
  });
}

/** Runs a program as the workers of a group, one in each place; resolves with what the one that answers said. */
export async function group(places: readonly Place[], file: string): Promise<unknown> {
  const [port] = await freePorts(1);
  const env = (rank: number) => ({ RANK: String(rank), MASTER_ADDR: '127.0.0.1', MASTER_PORT: String(port) });
  const answers = await Promise.all(places.map((place, rank) => answerOf(start(place, [file], env(rank)))));
  return answers.find((answer) => answer !== undefined);
}

/** The second of two workers kills itself. */
async function dying(place: Place): Promise<unknown> {
  const [port] = await freePorts(1);
  const env = { MASTER_ADDR: '127.0.0.1', MASTER_PORT: String(port) };
  const victim = start(place, ['dying.mjs'], { ...env, RANK: '1' });
  const ended = new Promise((resolve) => victim.once('close', (_, signal) => resolve(signal)));
  const answer = await answerOf(start(place, ['dying.mjs'], { ...env, RANK: '0' }));
  expect(await ended).toBe('SIGKILL');
  return answer;
}

const two = (file: string) => (place: Place) => group([place, place], file);
const three = (file: string) => (place: Place) => group([place, place, place], file);

/** The `backwire` command as npm links it. */
export function backwire(place: Place, args: readonly string[]): ChildProcess {
  return start(place, [join(place.folder, 'node_modules/backwire/dist/cli.js'), ...args]);
}

const launched = (file: string) => (place: Place) =>
  answerOf(backwire(place, ['run', '--standalone', '--nproc-per-node', '2', file]));

/** The program that the readme begins with, as it is there, by its command; answers what it prints. */
async function readme(place: Place): Promise<unknown> {
  const text = /```ts\n(.*?)```/s.exec(readFileSync(join(root, 'README.md'), 'utf8'))?.[1] ?? '';
  const file = join(place.folder, 'scale.ts');
  if (!existsSync(file)) writeFileSync(file, text);
  const child = backwire(place, ['run', '--standalone', '--nproc-per-node', '2', 'scale.ts']);
  let printed = '';
  child.stdout?.on('data', (chunk: Buffer) => (printed += chunk.toString()));
  await answerOf(child);
  return printed;
}

type Format = 'esm' | 'cjs';
const bundles = new Map<string, Promise<string>>();

/** The program with all packages in one file, in a folder from where no package is found. */
function bundle(folder: string, format: Format): Promise<string> {
  const outfile = join(folder, '..', `bundle-of-${basename(folder)}`, format === 'esm' ? 'calls.mjs' : 'calls.cjs');
  const known = bundles.get(outfile);
  if (known !== undefined) return known;
  const made = build({
    entryPoints: [join(folder, 'calls-of-one.mjs')],
    outfile,
    bundle: true,
    platform: 'node',
    format,
    // TensorFlow.js requires parts of Node, which esbuild's modules can do only so.
    ...(format === 'esm' && {
      banner: { js: "import { createRequire as of } from 'node:module'; const require = of(import.meta.url);" },
    }),
    // It warns of `import.meta` in CommonJS, and of optional packages that are not installed.
    logLevel: 'error',
  }).then(() => outfile);
  bundles.set(outfile, made);
  return made;
}

const bundled = (format: Format) => async (place: Place) =>
  answerOf(start(place, [await bundle(place.folder, format)]));

/** A page that takes a name or two: what its bundle weighs in bytes, minified, and what it says when it runs. */
async function small({ folder, runtime }: Place): Promise<unknown> {
  const answers = ['backwire', '@backwire/rpc'].map(async (name, at) => {
    const outfile = join(folder, '..', `bundle-of-${basename(folder)}`, `small-${at}.mjs`);
    const contents = `import { RpcError, rpcInfo } from '${name}';
      console.log('answer ' + JSON.stringify(rpcInfo(new RpcError('unavailable', 'away')).code));`;
    const options = { bundle: true, minify: true, platform: 'browser', format: 'esm', metafile: true } as const;
    const { metafile } = await build({ stdin: { contents, resolveDir: folder }, outfile, ...options });
    const bytes = Object.values(metafile.outputs).reduce((sum, output) => sum + output.bytes, 0);
    return [bytes, await answerOf(start({ folder, runtime }, [outfile]))];
  });
  return Promise.all(answers);
}

let started: Promise<Browser> | undefined;

/** One for all pages: it takes longer to start than they take. */
function browser(): Promise<Browser> {
  return (started ??= chromium.launch(chromiumOptions));
}

/** Ends what several programs used. */
export async function closeBrowser(): Promise<void> {
  await (await started)?.close();
}

/** A page, bundled from the packages as they are published, calls a worker. */
async function page(place: Place): Promise<unknown> {
  const { outputFiles, metafile } = await build({
    entryPoints: [join(place.folder, 'page.mjs')],
    bundle: true,
    platform: 'browser',
    format: 'esm',
    write: false,
    metafile: true,
    outdir: place.folder,
    // TensorFlow.js comes in a file of its own, for pages that ask for it.
    splitting: true,
    logLevel: 'error',
  });
  const files = new Map(outputFiles.map(({ path, text }) => [path.slice(place.folder.length), text]));
  const node = Object.keys(metafile.inputs).filter((input) => input.startsWith('node:'));
  const server = createServer(({ url = '' }, response) => {
    const text = files.get(url);
    if (text === undefined)
      response.setHeader('content-type', 'text/html').end('<script type=module src=/page.js></script>');
    else response.setHeader('content-type', 'text/javascript').end(text);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const [port, socket] = await freePorts(2);
  const worker = start(place, ['page-worker.mjs'], {
    SECRET: 'a secret of the page program',
    MASTER_ADDR: '127.0.0.1',
    MASTER_PORT: String(port),
    RANK: '0',
    BACKWIRE_STORE_WS: String(socket),
    BACKWIRE_ALLOWED_ORIGINS: origin,
  });
  const ended = answerOf(worker);
  // The worker may be ready before the browser is.
  const ready = new Promise<void>((resolve) => worker.stdout?.once('data', () => resolve()));
  const tab = await (await browser()).newPage();
  try {
    await Promise.race([ended, ready]);
    await tab.goto(origin);
    await tab.waitForFunction('globalThis.call !== undefined');
    const store = `ws://127.0.0.1:${socket}/backwire`;
    const answer = await tab.evaluate(`call(${JSON.stringify(store)}, 'a secret of the page program')`);
    return { node, answer };
  } finally {
    await tab.close();
    server.close();
    worker.stdin?.end();
    await ended;
  }
}

const PYTHON = process.env['BACKWIRE_TORCH_PYTHON'] ?? 'python3';
const withoutTorch = spawnSync(PYTHON, ['-c', 'import torch, numpy'], { stdio: 'ignore' }).status !== 0;

/** A worker in a group of stock PyTorch. */
async function besideTorch(place: Place): Promise<unknown> {
  const [port] = await freePorts(1);
  const env = {
    MASTER_ADDR: '127.0.0.1',
    MASTER_PORT: String(port),
    TP_SOCKET_IFNAME: 'lo',
    GLOO_SOCKET_IFNAME: 'lo',
    PYTHONDONTWRITEBYTECODE: '1',
  };
  const python = { ...place, runtime: { ...place.runtime, executable: PYTHON, flags: [] } };
  const [, answer] = await Promise.all([
    answerOf(start(python, ['-W', 'ignore', 'stock.py'], env)),
    answerOf(start(place, ['beside-torch.mjs'], env)),
  ]);
  return answer;
}

const is = (wanted: unknown) => (answer: unknown, expect: ExpectStatic) => expect(answer).toEqual(wanted);
const CALLS = {
  small: [2, 4, 6],
  large: ['text', 1_000_000, 1.5],
  error: [true, 'too far'],
  items: [0, 1, 2, 3, 4],
  // A worker that uses no kernel loads none.
  kernels: 0,
};
const BUNDLED = [1_000_000, 'cpu', expect.stringContaining("call `await setBackend('auto')` before"), 10_000];

const programs: readonly Program[] = [
  { name: 'calls', run: two('calls.mjs'), check: is(CALLS) },
  {
    name: 'the ten lines of the readme',
    run: readme,
    check: (printed, expect) => expect(printed).toContain('[ 2, 4, 6 ]'),
  },
  {
    name: 'a tensor service behind an HTTP server',
    run: two('http-service.mjs'),
    check: is([19, 422, [[0.5, 0.5]]]),
  },
  {
    name: 'a worker that dies',
    run: dying,
    check: is(['peer-died', 'owner-died', 'peer-died']),
  },
  { name: 'a shared reference', run: three('shared-reference.mjs'), check: is([1, true, 11, 1]) },
  {
    name: 'a pipeline of remote modules',
    run: three('pipeline.mjs'),
    check: (answer, expect) => {
      const [owners, first, last] = answer as [string[], number, number];
      expect(owners).toEqual(['front', 'front', 'back', 'back']);
      expect(last).toBeLessThan(first / 10);
    },
  },
  ...[undefined, 'port'].map((transports) => ({
    name: `threads with ${transports === undefined ? 'the default transports' : `the transport '${transports}'`}`,
    run: (place: Place) =>
      answerOf(start(place, ['threads.mjs'], transports === undefined ? {} : { TRANSPORTS: transports })),
    check: is([[4, 8, 12], [8, 16, 24], 'not-found']),
  })),
  {
    name: 'a parameter server',
    run: two('training.mjs'),
    check: (answer, expect) => {
      const [first, last] = answer as [number, number];
      expect(last).toBeLessThan(first / 10);
    },
  },
  {
    name: 'a program that requires',
    run: (place) => answerOf(start(place, ['commonjs.cjs'])),
    check: is([[2], 'function', 'function']),
  },
  { name: 'backwire run with JavaScript', run: launched('calls.mjs'), check: is(CALLS) },
  { name: 'backwire run with TypeScript', run: launched('launched/main.ts'), check: is([5]) },
  {
    name: 'a worker beside stock PyTorch',
    run: besideTorch,
    check: is([6, 42, [2, 4], ['LookupError', true]]),
    missing: withoutTorch ? 'no Python with torch: set BACKWIRE_TORCH_PYTHON' : undefined,
  },
  { name: 'a bundle of modules', run: bundled('esm'), check: is(BUNDLED) },
  { name: 'a bundle that requires', run: bundled('cjs'), check: is(BUNDLED) },
  {
    name: 'a bundle for pages that takes the errors alone',
    run: small,
    check: (answer, expect) => {
      for (const [bytes, code] of answer as [number, string][]) {
        expect(code).toBe('unavailable');
        expect(bytes).toBeLessThan(10_000);
      }
    },
  },
  {
    name: 'a page',
    run: page,
    check: is({ node: [], answer: [5, 10, 15, 'not-found', [2, 3, 5, 26, true]] }),
    missing: CHROMIUM === undefined ? 'no Chromium is installed' : undefined,
  },
];

/** All of them, as tests in the place that there is when they begin. */
export function testPrograms(place: () => Place, without: readonly string[] = []): void {
  for (const program of programs) {
    test.skipIf(program.missing !== undefined || without.includes(program.name))(program.name, async ({ expect }) => {
      program.check(await program.run(place()), expect);
    });
  }
}
