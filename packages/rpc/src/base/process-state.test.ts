/** @file Processes that are there, stopped, dead and forgotten. */
import { spawn } from 'node:child_process';
import { eventually } from '@backwire/testing';
import { expect, it } from 'vitest';
import { isProcessGone, processSpace } from './process-state.ts';

it('tells a process that runs or is stopped from one that is gone', async () => {
  const child = spawn('sleep', ['60']);
  const pid = child.pid ?? 0;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  expect(isProcessGone(pid)).toBe(false);
  child.kill('SIGSTOP');
  expect(isProcessGone(pid)).toBe(false);
  child.kill('SIGKILL');
  await ended;
  await eventually('its end was noticed', () => isProcessGone(pid));
  expect([0, -1, process.pid].map(isProcessGone)).toEqual([false, false, false]);
  expect(processSpace()).toBe(processSpace());
});

it.skipIf(process.platform !== 'linux')('counts one as gone that its parent has not waited for', async () => {
  // A shell that does not wait: its child stays as a zombie.
  const parent = spawn('/bin/sh', ['-c', 'sleep 0 & echo $!; exec sleep 60'], { stdio: ['ignore', 'pipe', 'ignore'] });
  const pid = await new Promise<number>((resolve) =>
    parent.stdout.once('data', (text: Buffer) => resolve(Number(text))),
  );
  await eventually('the zombie counts as gone', () => isProcessGone(pid));
  parent.kill('SIGKILL');
});
