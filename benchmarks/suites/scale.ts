/** @file Growing groups: what joining, a mesh, a barrier, a death and doing nothing cost at each size, and how fast it grows. */
import { execFile } from 'node:child_process';
import { loadavg } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { start, type Asked } from '../processes.ts';
import { publish } from '../published.ts';
import type { Row, SuiteContext } from '../suite.ts';
import { startStore, STORE_KINDS, whyNot, type StoreKind } from './scale-stores.ts';
import { exponent, line, table, type Figures } from './scale-table.ts';

export const name = 'scale';

/** Workers of real groups, in so many processes at most, and of groups whose workers never call each other. */
const MESHED = [16, 32, 64, 128, 256];
const LIGHT = [250, 500, 1_000];
const QUICK_MESHED = [8, 16];
const QUICK_LIGHT = [16, 32];
const PROCESSES = 16;
/** Sizes that PyTorch is tried at, one process each. */
const TORCH = [16, 32, 64, 128];
const TORCH_MS = 180_000;

const IDLE_MS = 5_000;
/** What the mesh, and what the store had to do, is over by then. */
const SETTLE_MS = 2_000;
const DEATH_MS = 60_000;

/** What is to hold. */
const GOALS = { meshSeconds: 30, endKiB: 64, lightSeconds: 60, deathSeconds: 2 } as const;

interface Group {
  readonly size: number;
  readonly meshed: boolean;
  readonly store: StoreKind;
}

export async function run(context: SuiteContext): Promise<Row[]> {
  const { programs, dispose } = await publish([new URL('./scale-worker.ts', import.meta.url)]);
  const rows: Row[] = [];
  try {
    const [program] = programs as [URL];
    const torch = await torchFigures(context);
    for (const store of storesOf()) {
      const missing = whyNot(store);
      if (missing !== undefined) {
        context.log(`${store}: skipped, ${missing}`);
        continue;
      }
      for (const meshed of [true, false]) {
        const figures: Figures[] = [];
        for (const size of sizesOf(context, meshed)) {
          const figure = await attempt(context, program, { size, meshed, store });
          if (figure === undefined) break;
          figures.push(figure);
        }
        const what = meshed ? 'called each other' : 'only joined';
        context.log(
          `\n${store} store, workers that ${what}${meshed && torch.length > 0 ? '; PyTorch in its rows' : ''}`,
        );
        context.log(table(meshed ? [...figures, ...torch] : figures, figures));
        rows.push(...rowsOf(`${store}, ${what}`, figures, meshed));
      }
    }
  } finally {
    dispose();
  }
  return rows;
}

/** Sizes can be chosen: BENCH_SCALE="64,256" for groups that mesh, BENCH_SCALE_LIGHT for those that do not; empty = none. */
function sizesOf({ quick }: SuiteContext, meshed: boolean): readonly number[] {
  const given = process.env[meshed ? 'BENCH_SCALE' : 'BENCH_SCALE_LIGHT'];
  if (given !== undefined) return given.split(',').filter(Boolean).map(Number);
  if (quick) return meshed ? QUICK_MESHED : QUICK_LIGHT;
  return meshed ? MESHED : LIGHT;
}

/** BENCH_SCALE_STORES="embedded,etcd" for some of the stores. */
function storesOf(): readonly StoreKind[] {
  const given = process.env['BENCH_SCALE_STORES'];
  return given === undefined ? STORE_KINDS : STORE_KINDS.filter((kind) => given.split(',').includes(kind));
}

/** A group that does not come to be is said, and those that are larger are not tried. */
async function attempt(context: SuiteContext, program: URL, group: Group): Promise<Figures | undefined> {
  try {
    return await measure(context, program, group);
  } catch (error) {
    const [why] = (error instanceof Error ? error.message : String(error)).split('\n');
    context.log(`${group.store}, ${group.size} workers${group.meshed ? '' : ' that only join'}: failed: ${why}`);
    return undefined;
  }
}

async function measure(context: SuiteContext, program: URL, { size, meshed, store }: Group): Promise<Figures> {
  const counted = await startStore(store);
  // The last of them has a process of its own, which is killed.
  const count = Math.min(PROCESSES, size) - 1;
  const children: Asked[] = [];
  try {
    for (let i = 0; i <= count; i++) children.push(await start(program, counted.env));
    const ranks = Array.from({ length: size - 1 }, (_, rank) => rank);
    const shares = children.map((_, i) => (i === count ? [size - 1] : ranks.filter((rank) => rank % count === i)));
    const of = async <T>(who: readonly Asked[], what: string, ...args: readonly unknown[]): Promise<T[]> =>
      Promise.all(who.map((child) => child.ask(what, ...args) as Promise<T>));
    const sum = async (what: string): Promise<number> =>
      (await of<number>(children, what)).reduce((all, each) => all + each, 0);

    const empty = await sum('resident');
    const busy = async (): Promise<number> => (await counted.count()).busyMs + (await sum('busy'));
    const [before, busyBefore] = [await counted.count(), await busy()];
    const [, joinMs] = await timed(
      Promise.all(children.map((child, i) => child.ask('start', shares[i], size, counted.address))),
    );
    const [joined, busyJoined] = [await counted.count(), await busy()];
    const small = await sum('resident');
    const busyResident = await busy();
    let meshMs: number | undefined;
    if (meshed) [, meshMs] = await timed(of(children, 'mesh', size));
    const busyMeshed = await busy();
    const large = await sum('resident');

    await sleep(SETTLE_MS);
    const idleBefore = { store: await counted.count(), sessions: await sum('traffic') };
    await sleep(IDLE_MS);
    const idleAfter = { store: await counted.count(), sessions: await sum('traffic') };
    const idleBytes = idleAfter.store.bytes - idleBefore.store.bytes;

    // The first makes the links to the one that collects.
    await of(children, 'meet');
    const [, barrierMs] = await timed(of(children, 'meet'));
    await sleep(SETTLE_MS);

    const [victim, survivors] = [children[count] as Asked, children.slice(0, count)];
    const lived = await counted.count();
    const killedAt = Date.now();
    process.kill(victim.pid, 'SIGKILL');
    const downAt = Math.max(...(await of<number>(survivors, 'heard', DEATH_MS)));
    await sleep(SETTLE_MS);
    const died = await counted.count();
    const elapsedMs = Date.now() - killedAt;
    children.pop();
    const [, leaveMs] = await timed(of(children, 'close'));

    const figures: Figures = {
      who: `${size}`,
      size,
      joinS: joinMs / 1_000,
      joinCpuS: (busyJoined - busyBefore) / 1_000,
      joinRequests: (joined.requests - before.requests) / size,
      joinKiB: (joined.bytes - before.bytes) / 1_024 / size,
      meshS: meshMs === undefined ? undefined : meshMs / 1_000,
      meshCpuS: meshed ? (busyMeshed - busyResident) / 1_000 : undefined,
      endKiB: meshed ? (large - small) / 1_024 / (size * (size - 1)) : undefined,
      workerMiB: (small - empty) / 2 ** 20 / size,
      idleStoreBytes: (1_000 * idleBytes) / IDLE_MS / size,
      idleSessionBytes: (1_000 * (idleAfter.sessions - idleBefore.sessions)) / 2 / IDLE_MS / size,
      changeBytes: Math.max(0, died.bytes - lived.bytes - (idleBytes * elapsedMs) / IDLE_MS) / (size - 1),
      deathS: (downAt - killedAt) / 1_000,
      barrierMs,
      leaveS: leaveMs / 1_000,
    };
    const load = (loadavg()[0] ?? 0).toFixed(1);
    context.log(`${store}, ${size} workers in ${count + 1} processes, load ${load}: ${line(figures)}`);
    return figures;
  } finally {
    for (const { pid } of children) kill(pid);
    await counted.close();
  }
}

/** What has to hold, and how each column grows, as rows beside those of other suites. */
function rowsOf(about: string, figures: readonly Figures[], meshed: boolean): Row[] {
  const last = figures.at(-1);
  if (last === undefined) return [];
  const goal = (what: string, unit: string, ours: number, peer: number): Row => {
    return {
      name: `${about}: ${last.size} workers ${what}`,
      unit,
      better: 'lower',
      against: 'the goal',
      ours,
      peer,
      ratio: ours / peer,
    };
  };
  const rows = meshed
    ? [
        goal('join and mesh', 's', last.joinS + (last.meshS ?? 0), GOALS.meshSeconds),
        goal('hold an end of a session', 'KiB', last.endKiB ?? Number.NaN, GOALS.endKiB),
      ]
    : [
        goal('join', 's', last.joinS, GOALS.lightSeconds),
        goal('know of a death', 's', last.deathS ?? Number.NaN, GOALS.deathSeconds),
      ];
  if (figures.length < 2) return rows;
  const grows = (what: string, of: (figure: Figures) => number | undefined, peer: number): Row => {
    const ours = exponent(figures, of);
    return {
      name: `${about}: ${what}`,
      unit: 'exponent',
      better: 'lower',
      against: `n^${peer}`,
      ours,
      peer,
      ratio: ours / peer,
    };
  };
  return [
    ...rows,
    grows('time to join', ({ joinS }) => joinS, 1),
    grows("bytes at the store for a worker's join", ({ joinKiB }) => joinKiB, 1),
  ];
}

async function torchFigures(context: SuiteContext): Promise<Figures[]> {
  if (context.torchPython === undefined) {
    context.log('without PyTorch: BACKWIRE_TORCH_PYTHON is not set');
    return [];
  }
  const found: Figures[] = [];
  const script = fileURLToPath(new URL('./scale_torch.py', import.meta.url));
  for (const size of context.quick ? QUICK_MESHED : TORCH) {
    try {
      const done = await promisify(execFile)(context.torchPython, [script, `${size}`], {
        timeout: TORCH_MS,
        killSignal: 'SIGKILL',
      });
      const said = JSON.parse(done.stdout) as Record<'joinMs' | 'meshMs' | 'bytesPerEnd' | 'residentBytes', number>;
      found.push({
        who: `PyTorch ${size}`,
        size,
        joinS: said.joinMs / 1_000,
        meshS: said.meshMs / 1_000,
        endKiB: said.bytesPerEnd / 1_024,
        workerMiB: said.residentBytes / 2 ** 20 / size,
      });
    } catch (error) {
      const [why] = (error instanceof Error ? error.message : String(error)).split('\n');
      context.log(`PyTorch, ${size} workers: failed within ${TORCH_MS / 1_000} s: ${why}`);
      break;
    }
  }
  return found;
}

async function timed<T>(work: Promise<T>): Promise<[T, number]> {
  const began = performance.now();
  const result = await work;
  return [result, performance.now() - began];
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}
