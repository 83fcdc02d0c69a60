/** @file What a program pays at start: time and memory of an import or a command, against a Node program that does nothing. */
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { rowOf, type Row, type SuiteContext } from '../suite.ts';

export const name = 'startup';

const EMPTY = 'an empty program';
const require = createRequire(import.meta.url);
/** The packages as they are published: what `npx nx run-many -t build` made. */
const cli = join(dirname(require.resolve('backwire/package.json')), 'dist/cli.js');

const imports = (line: string): readonly string[] => ['--input-type=module', '--eval', line];
const PROGRAMS: Readonly<Record<string, readonly string[]>> = {
  [EMPTY]: imports(''),
  'import of @backwire/tensor': imports("import '@backwire/tensor';"),
  'import of @backwire/rpc': imports("import '@backwire/rpc';"),
  'import of backwire': imports("import 'backwire';"),
  'import of backwire, and the kernels': imports("import { setBackend } from 'backwire'; await setBackend('auto');"),
  'a group of one, and a call': imports(
    "import { initRpc, rpcFunction, rpcSync, shutdown } from '@backwire/rpc'; const f = rpcFunction('f', (x) => x);" +
      "await initRpc({ name: 'w', rank: 0, worldSize: 1 }); await rpcSync('w', f, [1]); await shutdown();",
  ),
  'backwire --version': [cli, '--version'],
  'backwire inspect --help': [cli, 'inspect', '--help'],
};

/** Says its peak memory at its end, where nothing of it counts as time. */
const WATCH = 'process.on("exit", () => process.stderr.write(`\\nrss ${process.resourceUsage().maxRSS}\\n`));';

interface Start {
  readonly ms: number;
  readonly mib: number;
}

export async function run(context: SuiteContext): Promise<Row[]> {
  const rounds = context.quick ? 5 : 21;
  const starts = new Map<string, Start[]>(Object.keys(PROGRAMS).map((program) => [program, []]));
  for (let round = 0; round < rounds; round++)
    for (const [program, args] of Object.entries(PROGRAMS)) starts.get(program)?.push(startOf(program, args));
  const rows: Row[] = [];
  const of = (program: string, part: keyof Start): number[] => (starts.get(program) ?? []).map((start) => start[part]);
  for (const program of Object.keys(PROGRAMS).filter((other) => other !== EMPTY)) {
    const about = { name: program, better: 'lower', against: EMPTY } as const;
    rows.push(rowOf({ ...about, unit: 'ms' }, of(program, 'ms'), of(EMPTY, 'ms')));
    rows.push(rowOf({ ...about, unit: 'MiB' }, of(program, 'mib'), of(EMPTY, 'mib')));
  }
  return rows;
}

function startOf(program: string, args: readonly string[]): Start {
  const began = performance.now();
  const { status, stderr } = spawnSync(
    process.execPath,
    ['--import', `data:text/javascript,${encodeURIComponent(WATCH)}`, ...args],
    // The packages of this workspace as a user has them: without the condition that leads to their sources.
    { cwd: import.meta.dirname, encoding: 'utf8', env: { ...process.env, NODE_OPTIONS: '' } },
  );
  const ms = performance.now() - began;
  if (status !== 0) throw new Error(`${program}: exit code ${status}\n${stderr}`);
  return { ms, mib: Number(/rss (\d+)/.exec(stderr)?.[1]) / 1024 };
}
