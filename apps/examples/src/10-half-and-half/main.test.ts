/** @file The example with a process of stock PyTorch, its backward pass started from either side. Skipped without a Python with torch. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { torchVersion } from '../shared/python.ts';

const run = promisify(execFile);
const example = (args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<{ stdout: string; stderr: string }> =>
  run(
    process.execPath,
    ['--import', 'tsx', '--conditions=@backwire/source', join(import.meta.dirname, 'main.ts'), ...args],
    { env: { ...process.env, ...env } },
  );

const version = torchVersion();
const title = `stock torch ${version ?? '(skipped: no Python with torch; set BACKWIRE_TORCH_PYTHON)'}`;

describe.skipIf(version === undefined)(title, { timeout: 120_000 }, () => {
  it('learns the same, step by step, whichever side starts the backward pass', async () => {
    const losses: number[][] = [];
    for (const from of ['node', 'python']) {
      const { stdout } = await example(['--from', from, '--steps', '61']);
      expect(stdout).toContain(`after 61 steps, started from ${from}`);
      losses.push([...stdout.matchAll(/loss (\d\.\d+)/g)].map(([, loss]) => Number(loss)));
    }
    const [node, python] = losses as [number[], number[]];
    expect(node).toHaveLength(8);
    expect(node[0]).toBeGreaterThan(0.6);
    expect(node.at(-1)).toBeLessThan(0.25);
    node.forEach((loss, i) => expect(Math.abs(loss - (python[i] as number))).toBeLessThan(1e-5));
  });
});

describe.skipIf(version === undefined)(`${title}, which fails`, { timeout: 120_000 }, () => {
  let folder = '';
  // Python runs a file of this name before anything else.
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'half-and-half-'));
    const fails = "def fails(*args, **kwargs):\n    raise ArithmeticError('the loss exploded')\n";
    const patch = `import torch\n${fails}torch.nn.functional.binary_cross_entropy = fails\n`;
    writeFileSync(join(folder, 'sitecustomize.py'), patch);
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it('ends, with what Python said', async () => {
    const failed = example(['--from', 'python'], { PYTHONPATH: folder });
    await expect(failed).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringContaining('the loss exploded') as string,
    });
  });
});

it('says in a line that a Python has no torch, and what to do', async () => {
  const failed = example([], { BACKWIRE_TORCH_PYTHON: process.execPath });
  await expect(failed).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^half-and-half: '.*' has no torch: 'pip install torch numpy'.*\n$/) as string,
  });
  await expect(example(['--from', 'nowhere'])).rejects.toMatchObject({
    code: 2,
    stderr: "half-and-half: --from has to be one of node, python, got 'nowhere'; see --help\n",
  });
}, 120_000);
