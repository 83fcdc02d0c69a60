/** @file Checks distributed programs against one process of PyTorch: `npm run check:numerics -- --suite distributed [--seeds N] [--case distributed/S/N,...]`. */
import { parseArgs } from 'node:util';
import { PythonPeer, Random } from '@backwire/testing';
import { ProcessGroup } from './group.ts';
import { differenceOf, type Outcome } from './outcome.ts';
import { printDistributed } from './print.ts';
import { drawProgram, type Program } from './program.ts';
import { shrinkProgram } from './shrink.ts';

/** Programs a seed has. */
const PER_SEED = 100;
const WORKERS = 4;

/** Number `number` of a seed. */
function programOf(seed: number, number: number): Program {
  const name = `distributed/${seed}/${number}`;
  return drawProgram(new Random(name), name, WORKERS);
}

class Check {
  private readonly group = new ProcessGroup(WORKERS);
  private readonly torch: PythonPeer;

  constructor(torch: PythonPeer) {
    this.torch = torch;
  }

  /** How each program differs; undefined where it does not. */
  async differences(programs: readonly Program[]): Promise<(string | undefined)[]> {
    const wanted = this.torch.ask(programs) as Promise<Outcome[]>;
    const found: Outcome[] = [];
    for (const program of programs) found.push(await this.group.run(program));
    const torchs = await wanted;
    return programs.map((program, i) => differenceOf(found[i] as Outcome, torchs[i] as Outcome, program.dtype));
  }

  /** Shows a program that differs, made small. */
  async show(program: Program, difference: string): Promise<void> {
    const small = await shrinkProgram(program, async (one) => (await this.differences([one]))[0] !== undefined);
    const [still = difference] = await this.differences([small]);
    const { ts, py } = printDistributed(small);
    const indent = (text: string): string => text.replace(/^/gm, '    ');
    console.log(`\n--case ${program.seed}\n${indent(ts)}\n\n${indent(py)}\n  ${still}`);
  }

  async stop(): Promise<void> {
    await Promise.all([this.torch.stop(), this.group.stop()]);
  }
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      seeds: { type: 'string', default: '1' },
      first: { type: 'string', default: '1' },
      seed: { type: 'string' },
      case: { type: 'string' },
    },
    strict: false,
  });
  const python = process.env['BACKWIRE_TORCH_PYTHON'];
  if (python === undefined || python === '') {
    console.log(
      'check:numerics compares with PyTorch: set BACKWIRE_TORCH_PYTHON to a Python that has it. Nothing was checked.',
    );
    return 0;
  }
  const check = new Check(await PythonPeer.start(python, new URL('local.py', import.meta.url)));
  try {
    const programs = typeof values.case === 'string' ? values.case.split(',').map(named) : seeded(values);
    return await checkAll(check, programs);
  } finally {
    await check.stop();
  }
}

function named(text: string): Program {
  const [, seed, number] = text.split('/');
  if (number === undefined) throw new RangeError(`a case is 'distributed/seed/number', not '${text}'`);
  return programOf(Number(seed), Number(number));
}

function seeded(values: Record<string, unknown>): Program[] {
  const first = Number(values['seed'] ?? values['first']);
  const seeds = values['seed'] === undefined ? Number(values['seeds']) : 1;
  return Array.from({ length: seeds * PER_SEED }, (_, i) => programOf(first + Math.floor(i / PER_SEED), i % PER_SEED));
}

async function checkAll(check: Check, programs: readonly Program[]): Promise<number> {
  const started = performance.now();
  const failed: [Program, string][] = [];
  for (let at = 0; at < programs.length; at += 20) {
    const batch = programs.slice(at, at + 20);
    for (const [i, one] of (await check.differences(batch)).entries())
      if (one !== undefined) failed.push([batch[i] as Program, one]);
  }
  for (const [program, difference] of failed.slice(0, 10)) await check.show(program, difference);
  const seconds = ((performance.now() - started) / 1_000).toFixed(0);
  console.log(
    `\ndistributed: ${programs.length} programs on ${WORKERS} processes in ${seconds} s; ${failed.length} unexplained`,
  );
  process.send?.({ programs: programs.length, explained: 0, unexplained: failed.length });
  return failed.length === 0 ? 0 : 1;
}

process.exitCode = await main();
