/** @file The programs of the guide, each with its process of stock PyTorch. Skipped, saying so, where no Python has torch. */
import { execFileSync, spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { freePort, freePorts } from '@backwire/testing';
import { describe, expect, it } from 'vitest';

const python = process.env['BACKWIRE_TORCH_PYTHON'] ?? 'python3';
const hasTorch = ((): boolean => {
  try {
    execFileSync(python, ['-c', 'import torch, numpy'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
})();
const title = hasTorch
  ? 'beside stock torch'
  : 'beside stock torch (skipped: set BACKWIRE_TORCH_PYTHON to a Python that has it)';

const flags = ['--import', 'tsx', '--conditions=@backwire/source'];

/** Runs both programs to their end, which has to be a good one; what each printed. */
async function together(program: string, script: string): Promise<{ node: string; python: string }> {
  const env = {
    ...process.env,
    MASTER_ADDR: '127.0.0.1',
    MASTER_PORT: String(await freePort()),
    TP_SOCKET_IFNAME: 'lo',
    GLOO_SOCKET_IFNAME: 'lo',
    PYTHONDONTWRITEBYTECODE: '1',
  };
  const run = async (command: string, args: readonly string[]): Promise<string> => {
    const child = spawn(command, args, { cwd: import.meta.dirname, env, stdio: ['ignore', 'pipe', 'pipe'] });
    let [text, errors] = ['', ''];
    child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
    children.push(() => child.kill('SIGKILL'));
    const [code] = (await once(child, 'close')) as [number | null];
    if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}:\n${text}${errors}`);
    return text;
  };
  const children: (() => void)[] = [];
  try {
    const node = [...flags, join(import.meta.dirname, program)];
    const [here, there] = await Promise.all([run(process.execPath, node), run(python, ['-W', 'ignore', script])]);
    return { node: here, python: there };
  } finally {
    for (const end of children) end();
  }
}

describe.skipIf(!hasTorch)(title, { timeout: 120_000 }, () => {
  it('Node calls a function of Python', async () => {
    expect((await together('first.ts', 'worker.py')).node).toBe('[ 2, 3 ] 2.000\n');
  });

  it('Python calls a function of Node, by a stub and without one, and hears of its errors', async () => {
    expect((await together('server.ts', 'caller.py')).python).toBe('[2.0, 2.0]\n[2.0, 3.0]\nTrue TypeError\n');
  });

  it('Node makes an object in Python and calls its methods', async () => {
    expect((await together('references.ts', 'worker.py')).node).toBe('[ 3, 30 ]\n');
  });

  it('a member of another group calls through a gateway', async () => {
    const [port = 0, store = 0] = await freePorts(2);
    const env = {
      ...process.env,
      MASTER_ADDR: '127.0.0.1',
      MASTER_PORT: String(port),
      BACKWIRE_STORE: `tcp://127.0.0.1:${store}`,
      TP_SOCKET_IFNAME: 'lo',
      GLOO_SOCKET_IFNAME: 'lo',
      PYTHONDONTWRITEBYTECODE: '1',
    };
    const start = (command: string, args: readonly string[]): ChildProcessByStdio<null, Readable, null> =>
      spawn(command, args, { cwd: import.meta.dirname, env, stdio: ['ignore', 'pipe', 'inherit'] });
    const worker = start(python, ['-W', 'ignore', 'worker.py']);
    const gateway = start(process.execPath, [...flags, join(import.meta.dirname, 'gateway.ts')]);
    const ends = [worker, gateway].map((child) => once(child, 'exit'));
    try {
      await Promise.race([
        once(gateway.stdout, 'data'),
        ...ends.map((end) => end.then(([code]) => Promise.reject(new Error(`it ended with ${String(code)}`)))),
      ]);
      const member = start(process.execPath, [...flags, join(import.meta.dirname, 'member.ts')]);
      let text = '';
      member.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
      expect([await once(member, 'close'), text]).toEqual([[0, null], '[ 2, 3 ]\n[ 2, 20 ]\npermission-denied\n']);
      gateway.kill('SIGINT');
      expect(await Promise.all(ends)).toEqual([
        [0, null],
        [0, null],
      ]);
    } finally {
      for (const child of [worker, gateway]) child.kill('SIGKILL');
    }
  });

  it('one backward pass goes through both halves of a network, and the loss falls', async () => {
    const { node } = await together('halves.ts', 'worker.py');
    const losses = node
      .trim()
      .split('\n')
      .map((line) => Number(line.split(' ')[1]));
    expect(losses).toHaveLength(3);
    expect(losses[0]).toBeGreaterThan(1);
    expect(losses[2]).toBeLessThan(0.7 * (losses[0] ?? 0));
  });
});
