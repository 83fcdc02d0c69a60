/** @file A Python program beside a suite: two PyTorch RPC workers that do what each line of their input says and answer with JSON. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { SuiteContext } from '../suite.ts';

export interface TorchProcess {
  /** "PyTorch 2.x". */
  readonly name: string;
  ask(...words: readonly (string | number)[]): Promise<unknown>;
  close(): Promise<void>;
}

/** Starts `script`; undefined, having said why, when there is no Python with torch. */
export async function startTorchScript(context: SuiteContext, script: URL): Promise<TorchProcess | undefined> {
  if (context.torchPython === undefined) {
    context.log('without PyTorch: BACKWIRE_TORCH_PYTHON is not set');
    return undefined;
  }
  const child = spawn(context.torchPython, [script.pathname], { stdio: ['pipe', 'pipe', 'inherit'] });
  const gone = once(child, 'close');
  child.on('error', () => undefined);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<unknown> => {
    const line = await lines.next();
    if (line.done === true) throw new Error('the Python workers ended');
    return JSON.parse(line.value) as unknown;
  };
  let version: unknown;
  try {
    version = await next();
  } catch {
    context.log(`without PyTorch: ${context.torchPython} has no working torch`);
    return undefined;
  }
  return {
    name: `PyTorch ${String(version)}`,
    ask: (...words) => {
      child.stdin.write(`${words.join(' ')}\n`);
      return next();
    },
    close: async () => {
      child.stdin.end('quit\n');
      await gone;
    },
  };
}
