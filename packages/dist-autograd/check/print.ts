/** @file A distributed program as text: with calls in TypeScript, and without any in Python. */
import type { Call } from '../sim/program.ts';
import { ROWS, type Program, type Step } from './program.ts';

/** Writes the steps of function `fn` (main: -1), a line each. */
class Printer {
  private readonly program: Program;
  private readonly fn: number;
  private readonly ours: boolean;
  private readonly lines: string[] = [];

  constructor(program: Program, fn: number, ours: boolean) {
    this.program = program;
    this.fn = fn;
    this.ours = ours;
  }

  body(steps: readonly Step[]): string[] {
    for (const step of steps) this.step(step);
    return this.lines;
  }

  /** Indices are taken modulo what is there, which only the run knows. */
  private at(index: number): string {
    return `at(values, ${index})`;
  }

  private push(text: string): void {
    this.lines.push(this.ours ? `values.push(${text});` : `values += [${text}]`);
  }

  private spread(text: string): void {
    this.lines.push(this.ours ? `values.push(...(${text}));` : `values += ${text}`);
  }

  private step(step: Step): void {
    const { ours } = this;
    const here = (what: string, index: number, then: string, otherwise: string): string =>
      ours
        ? `here(${what}, ${index}) ? ${then} : ${otherwise}`
        : `${then} if here(${what}, ${index}) else ${otherwise}`;
    switch (step.do) {
      case 'leaf':
        return this.push(here('leaves', step.leaf, `at(leaves, ${step.leaf})`, this.at(step.leaf)));
      case 'lookup': {
        const rows = `[${step.rows.join(', ')}]`;
        return this.push(here('tables', step.table, `lookup(${step.table}, ${rows})`, this.at(step.table)));
      }
      case 'layer':
        return this.push(
          ours
            ? `await at(layers, ${step.layer}).rpcAsync().forward(${this.at(step.a)})`
            : `at(layers, ${step.layer})(${this.at(step.a)})`,
        );
      case 'apply':
        return this.push(`${this.at(step.a)}.${step.op}()`);
      case 'scale':
        return this.push(`${this.at(step.a)}.mul(${step.by})`);
      case 'add':
      case 'sub':
      case 'mul':
        return this.push(`${this.at(step.a)}.${step.do}(${this.at(step.b)})`);
      case 'fail':
        return void this.lines.push(ours ? "throw new RangeError('on purpose');" : 'raise Failed');
      case 'own':
        return void this.lines.push(
          ours ? `rrefs.push(createRRef([${this.at(step.a)}]));` : `rrefs += [[${this.at(step.a)}]]`,
        );
      case 'remote':
        return void this.lines.push(
          ours ? `rrefs.push(remote(${this.called(step.call)}));` : `rrefs += [${this.called(step.call)}]`,
        );
      case 'fetch':
        return this.spread(ours ? `await orFirst(at(rrefs, ${step.rref}).toHere())` : `at(rrefs, ${step.rref})`);
      case 'send':
        return this.spread(
          ours
            ? `await orFirst(rpcAsync(${this.called(step.call, `at(rrefs, ${step.rref})`)}))`
            : this.called(step.call, `at(rrefs, ${step.rref})`),
        );
      case 'call':
        for (const call of step.calls) {
          const text = this.called(call);
          if (step.forget)
            this.lines.push(ours ? `void rpcAsync(${text}).catch(() => undefined);` : `# ${text} is not waited for`);
          else this.spread(ours ? `await orFirst(rpcAsync(${text}))` : text);
        }
    }
  }

  private called(call: Call, rref?: string): string {
    const below = this.program.functions.length - this.fn - 1;
    const callee = below <= 0 ? 'nothing' : `f${this.fn + 1 + (call.fn % below)}`;
    const args = call.args.map((index) => this.at(index)).join(', ');
    if (!this.ours) return `${callee}([${args}]${rref === undefined ? '' : `, [${rref}]`})`;
    return `'w${call.to % this.program.workers}', ${callee}, [[${args}]${rref === undefined ? '' : `, [${rref}]`}]`;
  }
}

function bodyOf(program: Program, fn: number, ours: boolean): string[] {
  const steps = fn < 0 ? program.main : (program.functions[fn]?.steps ?? []);
  return new Printer(program, fn, ours).body(steps);
}

/** Both texts, with what is learnt as comments: where it lives matters in the first only. */
export function printDistributed(program: Program): { readonly ts: string; readonly py: string } {
  return { ts: textOf(program, true), py: textOf(program, false) };
}

function textOf(program: Program, ours: boolean): string {
  const { leaves, tables, layers, functions, passes, iterations, optimizer, schedule, dtype } = program;
  const comment = ours ? '//' : '#';
  const on = (worker: number): string => (ours ? ` on w${worker}` : '');
  const lines = [
    `${comment} ${dtype}; ${leaves.map(({ worker, values }, i) => `leaf ${i}${on(worker)} [${values.join(', ')}]`).join('; ')}`,
    ...tables.map(
      ({ worker, values, sparse }, i) =>
        `${comment} table ${i}${on(worker)} [${ROWS}, 2]${sparse ? ' sparse' : ''} [${values.join(', ')}]`,
    ),
    ...layers.map(
      ({ worker, weight, bias }, i) =>
        `${comment} layer ${i}${on(worker)} weight [${weight.join(', ')}] bias [${bias.join(', ')}]`,
    ),
  ];
  for (const [i, { out }] of functions.entries()) {
    const results = `[${out.map((index) => `at(values, ${index})`).join(', ')}]`;
    const body = bodyOf(program, i, ours);
    if (ours)
      lines.push(
        `const f${i} = rpcFunction('f${i}', async (values, rrefs = []) => {`,
        ...body.map((l) => `  ${l}`),
        `  return ${results};`,
        '});',
      );
    else
      lines.push(
        `def f${i}(values, rrefs=()):`,
        '    rrefs = list(rrefs)',
        ...body.map((l) => `    ${l}`),
        `    return ${results}`,
      );
  }
  lines.push(
    ours ? 'const values = [leaves[0]], rrefs = [];' : 'values, rrefs = [leaves[0]], []',
    ...bodyOf(program, -1, ours),
  );
  for (const pass of passes) {
    const roots = `[${pass.map((index) => `at(values, ${index})`).join(', ')}]`;
    lines.push(
      ours
        ? `await backward(id, sums(${roots}), { retainGraph: true });`
        : `torch.autograd.backward(sums(${roots}), retain_graph=True)`,
    );
  }
  if (optimizer !== undefined) {
    const options = JSON.stringify(optimizer.options);
    lines.push(
      ours
        ? `await DistributedOptimizer.create(optim.${optimizer.name}, params, ${options}).step(id);`
        : `optim.${optimizer.name}(params, **${options}).step()`,
    );
  }
  if (schedule !== undefined) {
    const given = [...schedule.args, JSON.stringify(schedule.options)].join(', ');
    lines.push(`${comment} and a step of ${schedule.name}(${given})`);
  }
  lines.push(`${comment} all of it ${iterations} times`);
  return lines.join('\n');
}
