/** @file PyTorch RPC as a contestant, when `BACKWIRE_TORCH_PYTHON` names a Python that has torch. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { echoRate, type Contestant } from '../measure.ts';

/** Echoes of one block: it needs no warming up. */
const MAX_ECHOES = 40;

/** Starts two Python workers; the reason, when there is no torch. */
export async function startTorch(python: string | undefined): Promise<Contestant | string> {
  if (python === undefined) return 'BACKWIRE_TORCH_PYTHON is not set';
  const child = spawn(python, [new URL('./torch_peer.py', import.meta.url).pathname], {
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  const gone = once(child, 'close');
  child.on('error', () => undefined);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<unknown> => {
    const line = await lines.next();
    if (line.done === true) throw new Error('the Python workers ended');
    return JSON.parse(line.value) as unknown;
  };
  const ask = async (...words: readonly (string | number)[]): Promise<unknown> => {
    child.stdin.write(`${words.join(' ')}\n`);
    return next();
  };

  try {
    await next();
  } catch {
    return `${python} has no working torch`;
  }
  return {
    name: 'PyTorch RPC',
    // A tenth of the calls: it takes ten times as long for each.
    latency: async (payload, count) => (await ask('latency', payload, Math.ceil(count / 10))) as number[],
    throughput: async (payload, count, inFlight) =>
      (await ask('throughput', payload, Math.ceil(count / 10), inFlight)) as number,
    echo: async (mib, count) => {
      const few = Math.min(count, MAX_ECHOES);
      return echoRate(mib, few, (await ask('echo', mib, few)) as number);
    },
    close: async () => {
      child.stdin.end('quit\n');
      await gone;
    },
  };
}
