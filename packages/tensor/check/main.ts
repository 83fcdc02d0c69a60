/** @file Checks numerics against PyTorch: `npm run check:numerics -- --help` tells how. */
import { Checker } from './checker.ts';
import { Executor } from './executors.ts';
import { groupFindings, settle, showGroup, type Group } from './groups.ts';
import { HELP, readOptions, type Options } from './options.ts';
import { findPython } from './python.ts';
import { record } from './record.ts';
import { keepRegressions } from './regressions.ts';
import { showExplained, showTallies, totalOf } from './report.ts';
import { drawProgram, runSuites } from './run.ts';
import { suites } from './suites/table.ts';
import type { Program } from './program.ts';
import { TorchPeer } from './torch-peer.ts';

/** At most as many faults are made small and shown; the others are counted. */
const SHOWN = 100;

/** The backends asked for, or all that start here. */
async function openExecutors(wanted: readonly string[] | undefined): Promise<Executor[]> {
  const executors = (wanted ?? ['cpu', 'wasm', 'blas', 'tensorflow']).map((backend) => new Executor(backend));
  if (wanted !== undefined) return executors;
  const found: Executor[] = [];
  for (const executor of executors) if (await executor.starts()) found.push(executor);
  return found;
}

function programNamed(seed: string): Program {
  const [name, number, at] = seed.split('/');
  const suite = suites.find((one) => one.name === name);
  if (suite === undefined || at === undefined) throw new RangeError(`a case is 'suite/seed/number', not '${seed}'`);
  return drawProgram(suite, Number(number), Number(at));
}

async function settleAll(groups: readonly Group[], checker: Checker, shrinkMs: number): Promise<Group[]> {
  const settled: Group[] = [];
  for (const group of groups.slice(0, SHOWN)) {
    const one = await settle(group, checker.torch, checker.executors, shrinkMs);
    console.log(`\n${showGroup(one)}`);
    settled.push(one);
  }
  if (groups.length > SHOWN) console.log(`\nand ${groups.length - SHOWN} more`);
  return settled;
}

async function checkSeeds(checker: Checker, options: Options): Promise<boolean> {
  const started = performance.now();
  const { tallies, findings } = await runSuites(checker, options.suites, options);
  const seconds = (performance.now() - started) / 1_000;
  const groups = groupFindings(findings.filter(({ explained }) => explained === undefined));
  const settled = await settleAll(groups, checker, options.shrinkMs);
  if (options.keep) await keepRegressions(checker, settled);
  const explained = showExplained(findings);
  if (explained !== '') console.log(`\n${explained}`);
  console.log(`\n${showTallies(tallies)}`);
  const { programs, unexplained } = totalOf(tallies);
  console.log(
    `\n${programs} programs in ${seconds.toFixed(0)} s; ${unexplained} unexplained, ${groups.length} kinds of them`,
  );
  process.send?.({ programs, explained: totalOf(tallies).explained, unexplained });
  return unexplained === 0;
}

/** Programs by name, each by itself: what differs alike in two of them is shown of both. */
async function checkNamed(checker: Checker, { only, shrinkMs, keep }: Options): Promise<boolean> {
  const settled: Group[] = [];
  let good = true;
  // All names first: a wrong one is said before the others take their time.
  for (const [i, program] of only.map(programNamed).entries()) {
    const { findings } = await checker.check([program]);
    if (findings.length === 0) console.log(`${only[i]}: no difference`);
    settled.push(...(await settleAll(groupFindings(findings), checker, shrinkMs)));
    for (const { backend, explained } of findings)
      if (explained !== undefined) console.log(`${only[i]} on ${backend} is meant: ${explained}`);
    good &&= findings.every(({ explained }) => explained !== undefined);
  }
  if (keep) await keepRegressions(checker, settled);
  return good;
}

async function main(): Promise<boolean> {
  if (process.argv.includes('--help')) {
    console.log(HELP);
    return true;
  }
  const options = readOptions(process.argv.slice(2));
  const python = findPython();
  if (python === undefined) return true;
  const checker = new Checker(await TorchPeer.start(python), await openExecutors(options.backends));
  try {
    console.log(
      `PyTorch ${checker.torch.version}; backends ${checker.executors.map(({ backend }) => backend).join(', ')}`,
    );
    if (options.only.length > 0) return await checkNamed(checker, options);
    if (options.record) return await record(checker, options.suites);
    return await checkSeeds(checker, options);
  } finally {
    await checker.stop();
  }
}

process.exitCode = (await main()) ? 0 : 1;
