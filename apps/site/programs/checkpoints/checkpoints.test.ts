/** @file The checkpoints of the guide: a run whose trainer is killed goes on, and ends where one does that was left alone. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadSafetensors } from 'backwire';
import { afterAll, expect, it } from 'vitest';
import { printed, started } from '../../test/started.ts';

const folders: string[] = [];
afterAll(() => folders.forEach((folder) => rmSync(folder, { recursive: true })));

/** Of the newest run, which makes it. */
const runFolder = (): string => join(folders.at(-1) ?? '', 'run7');

function options(): { program: string; processes: number; args: string[] } {
  folders.push(mkdtempSync(join(tmpdir(), 'backwire-checkpoints-')));
  return { program: join(import.meta.dirname, 'main.ts'), processes: 2, args: [runFolder()] };
}

it('a killed run goes on after its last checkpoint, to the same loss', { timeout: 120_000 }, async () => {
  const left = await printed(options());
  const group = started({ ...options(), maxRestarts: 1 });
  await group.prints(/step 50:/);
  process.kill(group.workers[0]?.pid ?? 0, 'SIGKILL');
  const { exitCode, restarts } = await group.result;
  expect([exitCode, restarts]).toEqual([0, 1]);
  const [, from] = await group.prints(/going on after step (\d+)/);
  expect(Number(from) % 50).toBe(0);
  const last = /step 300: loss \S+/;
  expect(last.exec(group.output())?.[0]).toBe(last.exec(left)?.[0]);
  const { tensors } = loadSafetensors(readFileSync(join(runFolder(), 'weights.safetensors')));
  expect([...tensors].map(([name, { shape }]) => [name, shape])).toEqual(
    expect.arrayContaining([
      ['0.weight', [16, 4]],
      ['2.bias', [1]],
    ]),
  );
});
