/** @file Groups of this machine are found without an address, and what killed processes left is swept. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { freePort } from '@backwire/testing';
import { createAgent } from '../index.ts';
import { announceGroup, runningGroups, userFolder } from './registry.ts';
import { until } from '../../test/cluster.ts';

let folder: string;
const before = process.env['TMPDIR'];
beforeEach(() => {
  folder = mkdtempSync(join(before ?? tmpdir(), 'r-'));
  process.env['TMPDIR'] = folder;
});
afterEach(() => {
  if (before === undefined) delete process.env['TMPDIR'];
  else process.env['TMPDIR'] = before;
  rmSync(folder, { recursive: true, force: true });
});

/** The number of a process that has certainly ended. */
const deadPid = (): number => spawnSync(process.execPath, ['-e', '']).pid;

it('a group is listed while it is there, for its user alone', () => {
  expect(runningGroups()).toEqual([]);
  const forget = announceGroup({ address: 'tcp://h:1?prefix=p/', program: 'train.js' });
  const [group] = runningGroups();
  expect(group).toMatchObject({ address: 'tcp://h:1?prefix=p/', program: 'train.js', pid: process.pid });
  const files = readdirSync(userFolder());
  for (const file of files) expect(statSync(join(userFolder(), file)).mode & 0o777).toBe(0o600);
  forget();
  expect(runningGroups()).toEqual([]);
});

it('whoever hosts the store of a group lists it, until it shuts down', async () => {
  const store = `tcp://127.0.0.1:${await freePort()}`;
  const agent = await createAgent({ name: 'w0', rank: 0, worldSize: 1, store });
  expect(runningGroups().map(({ address }) => address)).toEqual([store]);
  await agent.shutdown();
  expect(runningGroups()).toEqual([]);
});

it('entries and secrets of killed launchers are swept, those of the living and of other containers stay', () => {
  const own = userFolder();
  const space = process.platform === 'linux' ? readlinkSync('/proc/self/ns/pid') : '';
  const entry = (name: string, pid: number, where: string, secret?: string): void =>
    writeFileSync(
      join(own, name),
      JSON.stringify({ address: 'tcp://h:1', program: 'p', pid, startedAt: 1, space: where, secretFile: secret }),
    );
  const secretOf = (port: number): string => {
    const path = join(own, `run-${port}`);
    writeFileSync(path, 'secret', { mode: 0o600 });
    return path;
  };
  const pid = deadPid();
  const [dead, shared, foreign] = [secretOf(1), secretOf(2), secretOf(3)];
  const outside = join(folder, 'run-not-ours');
  writeFileSync(outside, 'x');
  entry(`group-${pid}-1.json`, pid, space, dead);
  entry(`group-${pid}-2.json`, pid, space, shared);
  entry(`group-${pid}-3.json`, pid, space, outside);
  entry(`group-${process.pid}-9.json`, process.pid, space, shared);
  entry(`group-${pid}-4.json`, pid, 'pid:[1]', foreign);
  writeFileSync(join(own, 'group-1-1.json'), 'nonsense');
  expect(runningGroups().map((group) => group.pid)).toEqual([process.pid]);
  expect([dead, shared, foreign, outside].map(existsSync)).toEqual([false, true, true, true]);
  expect(readdirSync(own).filter((name) => name.startsWith(`group-${pid}-`))).toEqual([`group-${pid}-4.json`]);
});

it('socket folders of killed processes are swept by the next that listens, and the launcher removes those of its workers', async () => {
  const program = `
    const { mkdtempSync } = require('node:fs');
    const made = mkdtempSync(process.env.TMPDIR + '/backwire-' + process.pid + '-');
    require('node:net').createServer().listen(made + '/s', () => console.log(made));`;
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const left = line.toString().trim();
  child.kill('SIGKILL');
  await once(child, 'exit');
  expect(existsSync(join(left, 's'))).toBe(true);
  // Of a living process, one that is being made, and one of a former version that is old.
  const living = join(folder, `backwire-${process.pid}-abcdef`);
  const young = join(folder, `backwire-${deadPid()}-abcdef`);
  const old = join(folder, 'backwire-abcdef');
  for (const path of [living, young, old]) mkdirSync(path);
  utimesSync(old, 1, 1);
  // A process sweeps once: this is another one, as far as the module knows.
  vi.resetModules();
  const { unixTransport } = await import('../transports/unix.ts');
  const { removeFoldersOf } = await import('../transports/socket-folders.ts');
  const listener = await unixTransport().listen({}, () => undefined);
  await until(() => !existsSync(left) && !existsSync(old), 'the sweep');
  expect([living, young].map(existsSync)).toEqual([true, true]);
  await listener.close();
  const worker = join(folder, 'backwire-77-abcdef');
  const another = join(folder, 'backwire-770-abcdef');
  for (const path of [worker, another]) mkdirSync(path);
  removeFoldersOf(77);
  expect([worker, another].map(existsSync)).toEqual([false, true]);
});

it.skipIf(process.getuid?.() !== 0)(
  'root removes nothing of another user, who could lead it elsewhere (needs root)',
  async () => {
    const { removeFoldersOf } = await import('../transports/socket-folders.ts');
    const folder = process.env['TMPDIR'] as string;
    const [own, planted] = [join(folder, 'backwire-78-abcdef'), join(folder, 'backwire-78-ghijkl')];
    for (const path of [own, planted]) mkdirSync(path);
    writeFileSync(join(planted, 's'), '');
    chownSync(planted, 65_534, 65_534);
    removeFoldersOf(78);
    expect([own, join(planted, 's')].map(existsSync)).toEqual([false, true]);
  },
);
