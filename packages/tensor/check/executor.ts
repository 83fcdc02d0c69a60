/** @file The process of one backend: runs the programs that its parent sends. Started by executors.ts. */
import { backendName } from '../src/index.ts';
import { execute } from './execute.ts';
import type { Outcome } from './outcome.ts';
import type { Program } from './program.ts';

export type Report = { readonly ready: string } | { readonly outcome: Outcome };

/** Resolves once the report is on its way, so that a program that never ends keeps none of those before it back. */
function send(report: Report): Promise<void> {
  return new Promise((sent) => process.send?.(report, undefined, undefined, () => sent()));
}

process.on('message', (programs: readonly Program[]) => {
  void (async () => {
    for (const program of programs) await send({ outcome: execute(program) });
  })();
});
process.on('disconnect', () => process.exit(0));
await send({ ready: backendName() });
