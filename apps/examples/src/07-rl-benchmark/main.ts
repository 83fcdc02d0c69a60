/**
 * @file PyTorch's reinforcement-learning benchmark: how fast an agent answers observers, batched or one by one.
 *
 *     node --import tsx --conditions=@backwire/source apps/examples/src/07-rl-benchmark/main.ts --world-size 5 --batch true,false
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { initRpc, shutdown } from 'backwire';
import { setBackend } from '@backwire/tensor';
import { launch } from '@backwire/launch';
import { remote } from '@backwire/rref';
import { reportMistake } from '../shared/example.ts';
import { flagsHelp, OptionError, parseFlags } from '../shared/flags.ts';
import { progress } from '../shared/progress.ts';
import { type Flags, flags, nameOf, type Setting, settingOf, variableOf } from './options.ts';
import { chartOf, reportOf, type Result, resultOf, resultTable, type Run } from './report.ts';
import { Agent, type Measured, Observer } from './roles.ts';

const ABOUT = `
usage: node --import tsx --conditions=@backwire/source apps/examples/src/07-rl-benchmark/main.ts [flags]

A port of PyTorch's benchmarks/distributed/rpc/rl: a coordinator runs episodes in which observers ask an agent for an action at every
step. Batched, the agent waits for all observers and answers them with one forward pass. At most one flag may be a list with commas:
the benchmark runs for each of its values, and it is the x axis of the chart. Writes the original's report as JSON.
`;
/** Names the file for the result of one run, on the coordinator. */
const RESULT = 'RL_BENCHMARK_RESULT';

async function main(argv: readonly string[]): Promise<number> {
  const given = parseFlags(argv, flags);
  if (given === undefined) {
    process.stdout.write(`${ABOUT.trim()}\n\n${flagsHelp(flags)}`);
    return 0;
  }
  if (process.env['RANK'] === undefined) return runAll(given);
  await work(settingOf(given));
  return 0;
}

/** Runs every setting, each as a group of its own, and writes the report. */
async function runAll(given: Flags): Promise<number> {
  const variable = variableOf(given);
  const settings = (variable?.values ?? [undefined]).map((x) => ({
    x,
    flags: variable === undefined || x === undefined ? given : { ...given, [variable.name]: x },
  }));
  for (const { flags: each } of settings) settingOf(each);
  const report = resolve(given['output-file-path']);
  prepare(report);
  const folder = mkdtempSync(join(tmpdir(), 'backwire-rl-benchmark-'));
  try {
    const runs: Run[] = [];
    for (const { x, flags: each } of settings) {
      if (variable !== undefined) console.log(`--${variable.name} ${x}`);
      const file = join(folder, 'result.json');
      const { report: failure, exitCode } = await launch({
        program: import.meta.filename,
        args: Object.entries(each).map(([name, value]) => `--${name}=${value}`),
        processes: settingOf(each).worldSize,
        masterAddr: given['master-addr'],
        masterPort: given['master-port'],
        env: { [RESULT]: file },
        label: nameOf,
        inherit: [0],
        stopGraceMs: 1_500,
      });
      if (failure !== undefined) {
        console.error(failure);
        return exitCode;
      }
      runs.push({ x, result: JSON.parse(readFileSync(file, 'utf8')) as Result });
    }
    writeFileSync(report, `${JSON.stringify(reportOf(given, variable?.name, runs), null, 2)}\n`);
    const chart = report.replace(/(\.json)?$/, '.svg');
    writeFileSync(chart, chartOf(variable?.name, runs));
    console.log(`written: ${report}, ${chart}`);
    return 0;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** One process of one run. */
async function work(setting: Setting): Promise<void> {
  const rank = Number(process.env['RANK']);
  const { worldSize } = setting;
  if (Number(process.env['WORLD_SIZE']) !== worldSize)
    throw new OptionError(`--world-size is ${worldSize}, and there are ${process.env['WORLD_SIZE']} workers`);
  await setBackend('auto');
  await initRpc({ name: nameOf(rank), rank, worldSize, initTimeoutMs: 120_000 });
  if (rank === 0) {
    const result = await coordinate(setting);
    const file = process.env[RESULT];
    if (file !== undefined) writeFileSync(file, JSON.stringify(result));
    console.log(`\nfor batch size ${worldSize - 2}\n${resultTable(result)}\n`);
  }
  await shutdown();
}

/** Runs the episodes and collects what agent and observers measured. */
async function coordinate(setting: Setting): Promise<Result> {
  const { worldSize, episodes, steps } = setting;
  using agent = remote('agent', Agent, [setting]);
  const observers = Array.from({ length: worldSize - 2 }, (_, i) =>
    remote(nameOf(i + 2), Observer, [i, agent, setting]),
  );
  const bars = progress(['coordinator'], process.stdout, { unit: 'episodes', value: 'seconds' });
  const ofAgent: Measured[] = [];
  const ofObservers: Measured[] = [];
  for (let episode = 0; episode < episodes; episode++) {
    const began = performance.now();
    ofObservers.push(
      ...(await Promise.all(observers.map((observer) => observer.rpcAsync({ timeoutMs: 0 }).runEpisode(steps)))),
    );
    ofAgent.push(await agent.rpcSync().finishEpisode());
    bars.update('coordinator', {
      done: episode + 1,
      total: episodes,
      value: (performance.now() - began) / 1000,
    });
  }
  bars.stop();
  for (const observer of observers) observer.dispose();
  return resultOf({
    'agent latency (seconds)': ofAgent.flatMap(({ latency }) => [...latency]),
    'agent throughput': ofAgent.flatMap(({ throughput }) => [...throughput]),
    'observer latency (seconds)': ofObservers.flatMap(({ latency }) => [...latency]),
    'observer throughput': ofObservers.flatMap(({ throughput }) => [...throughput]),
  });
}

/** The report has to be writable before the runs, not after them. */
function prepare(file: string): void {
  try {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, '', { flag: 'a' });
  } catch (error) {
    throw new OptionError(`--output-file-path ${file}: ${(error as Error).message}`, { cause: error });
  }
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  reportMistake('rl-benchmark', error);
}
