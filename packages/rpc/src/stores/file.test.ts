/** @file The store in a directory: many processes at once, snapshots, and leases of processes that died. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  constants,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test, vi } from 'vitest';
import { entries, FileLog, SNAPSHOT_EVERY } from './file-log.ts';
import { fileStore } from './file.ts';
import { openStore } from './open.ts';
import type { Store } from './store.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function scratch(): string {
  const directory = mkdtempSync(join(tmpdir(), 'backwire-test-'));
  cleanups.push(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

async function open(directory: string): Promise<Store> {
  const store = await fileStore(directory);
  cleanups.push(() => store.close());
  return store;
}

function run(directory: string, body: string): ReturnType<typeof spawn> {
  const program = `const { fileStore } = await import(${JSON.stringify(new URL('./file.ts', import.meta.url).href)});
    const store = await fileStore(${JSON.stringify(directory)});
    ${body}`;
  const child = spawn(
    process.execPath,
    ['--import', 'tsx', '--conditions=@backwire/source', '--input-type=module', '-e', program],
    {
      cwd: fileURLToPath(new URL('../../../../', import.meta.url)),
      stdio: ['ignore', 'inherit', 'inherit'],
    },
  );
  cleanups.push(() => child.kill('SIGKILL'));
  return child;
}

const UNHEARD = { skipped: () => undefined, emptied: () => undefined };

test('processes that count at once lose no count', async () => {
  const directory = scratch();
  const store = await open(directory);
  const children = [1, 2, 3].map(() =>
    run(directory, `for (let i = 0; i < 60; i++) await store.add('n', 1n); await store.close();`),
  );
  const codes = await Promise.all(children.map((child) => once(child, 'exit')));
  expect(codes.map(([code]) => code as number)).toEqual([0, 0, 0]);
  expect(await store.add('n', 0n)).toBe(180n);
});

test('old operations are deleted; those who had not read them list again and write on', async () => {
  const directory = scratch();
  const writer = await open(directory);
  await writer.set('first', Buffer.from('1'));
  const sleeper = await open(directory);
  const events = sleeper.watch('')[Symbol.asyncIterator]();
  const lease = await sleeper.lease(600_000);
  await sleeper.set('held', Buffer.from('1'), { lease });
  // The sleeper does not run while others write, as a process that is stopped.
  const clock = sleeper as unknown as { timer: NodeJS.Timeout; poll: () => void };
  clock.poll = () => undefined; // also for a look that is under way and would set the next timer
  clearTimeout(clock.timer);
  await sleeper.get('first'); // behind that look
  for (let i = 0; i < 2 * SNAPSHOT_EVERY + 10; i++) await writer.add('n', 1n);
  expect(readdirSync(join(directory, 'log')).length).toBeLessThan(SNAPSHOT_EVERY + 20);
  expect(await sleeper.add('n', 1n)).toBe(BigInt(2 * SNAPSHOT_EVERY + 11));
  expect(Buffer.from((await sleeper.get('first')) ?? []).toString()).toBe('1');
  expect((await events.next()).value).toEqual({ type: 'resync', key: '' });
  const late = await open(directory);
  expect(await late.add('n', 0n)).toBe(BigInt(2 * SNAPSHOT_EVERY + 11));
  // What was skipped had not to do with its lease.
  expect(await Promise.race([lease.lost, Promise.resolve('held')])).toBe('held');
  await lease.revoke();
  expect(await late.get('held')).toBeUndefined();
  expect(readdirSync(join(directory, 'new'))).toEqual([]);
});

test('the lease of a killed process runs out', async () => {
  const directory = scratch();
  const store = await open(directory);
  const child = run(
    directory,
    `const lease = await store.lease(800); await store.set('member', Buffer.from('x'), { lease });`,
  );
  await store.wait(['member'], { timeoutMs: 20_000 });
  await new Promise((resolve) => setTimeout(resolve, 1_200));
  expect(await store.get('member')).toBeDefined();
  const gone = store.watch('member')[Symbol.asyncIterator]();
  await store.get('member');
  child.kill('SIGKILL');
  expect((await gone.next()).value).toMatchObject({ type: 'delete', key: 'member' });
});

test('nonsense in the log changes nothing', async () => {
  const directory = scratch();
  const store = await open(directory);
  await store.set('k', Buffer.from('v'));
  writeFileSync(join(directory, 'log', '2'.padStart(16, '0')), Buffer.from('nonsense'));
  await store.set('k', Buffer.from('w'));
  const other = await open(directory);
  expect(Buffer.from((await other.get('k')) ?? []).toString()).toBe('w');
});

test.each(['.nfs000000000012', '.DS_Store', '600 copy', '9'.repeat(40)])(
  'a file of others, %s, is no snapshot and is left alone',
  async (name) => {
    const directory = scratch();
    const store = await open(directory);
    for (const part of ['log', 'snapshots', 'beats', 'new']) writeFileSync(join(directory, part, name), '');
    for (let i = 0; i < SNAPSHOT_EVERY + 5; i++) await store.add('n', 1n);
    const other = await open(directory);
    expect(await other.add('n', 0n)).toBe(BigInt(SNAPSHOT_EVERY + 5));
    for (const part of ['log', 'snapshots', 'beats', 'new']) expect(readdirSync(join(directory, part))).toContain(name);
  },
);

test('a snapshot that is listed and cannot be read is an error, not an endless search', async () => {
  const directory = scratch();
  await open(directory);
  symlinkSync('nowhere', join(directory, 'snapshots', '600'));
  await expect(fileStore(directory)).rejects.toMatchObject({
    code: 'unavailable',
    message: `snapshot 600 of the store in '${directory}' cannot be read [unavailable]`,
  });
});

test('a directory that cannot be made is an error in words', async () => {
  const file = join(scratch(), 'file');
  writeFileSync(file, '');
  await expect(openStore(`file://${file}`)).rejects.toMatchObject({
    code: 'unavailable',
    message: expect.stringMatching(/cannot be opened: ENOTDIR: not a directory/) as string,
  });
  const opened = await openStore(`file://${scratch()}`, { group: 'g' });
  await opened.store.set('k', Buffer.from('v'));
  await opened.store.close();
});

test.skipIf(process.platform !== 'linux')('nor does one wait for a folder that the system never makes', async () => {
  await expect(openStore('file:///proc/backwire/store')).rejects.toMatchObject({
    code: 'unavailable',
    message: expect.stringMatching(/'\/proc\/backwire\/store' cannot be opened: ENOENT/) as string,
  });
});

/** Whoever opens it to read waits for somebody who writes. */
function plug(directory: string, number: number): () => Promise<void> {
  const pipe = join(directory, 'log', String(number).padStart(16, '0'));
  execFileSync('mkfifo', [pipe]);
  const unplug = async (): Promise<void> => {
    const end = openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK);
    await new Promise((resolve) => setTimeout(resolve, 200));
    closeSync(end);
  };
  cleanups.push(unplug);
  return unplug;
}

test.skipIf(process.platform === 'win32')('a file system that does not answer holds nobody past the time', async () => {
  const directory = scratch();
  await open(directory);
  plug(directory, 1);
  await expect(openStore(`file://${directory}`, { timeoutMs: 200 })).rejects.toMatchObject({
    code: 'deadline-exceeded',
    message: `the store in '${directory}' did not open in 200 ms: its file system does not answer; see to that, or give another folder [deadline-exceeded]`,
  });
  const controller = new AbortController();
  const cancelled = openStore(`file://${directory}`, { timeoutMs: 0, signal: controller.signal });
  controller.abort();
  await expect(cancelled).rejects.toMatchObject({ code: 'cancelled' });
});

test.skipIf(process.platform === 'win32')(
  'nor past the time of an operation; those that were given up are not done later',
  async () => {
    const directory = scratch();
    const log = new FileLog(directory, UNHEARD, 200);
    await log.open();
    const free = plug(directory, 1);
    const set = (key: string): Promise<unknown> => log.perform(() => entries.set(key, Buffer.from('v'), undefined));
    const outcomes = await Promise.allSettled([set('a'), set('b')]);
    const text = `the store in '${directory}' has not answered in 200 ms: its file system is out of reach, or too slow [unavailable]`;
    expect(outcomes).toMatchObject([
      { reason: { code: 'unavailable', executed: 'maybe', message: text } },
      { reason: { code: 'unavailable', executed: 'no', message: text } },
    ]);
    await free();
    await log.sync();
    expect(log.state.has('b')).toBe(false);
  },
);

test.skipIf(process.platform === 'win32')(
  'nor past the time of a wait, nor when it is closed',
  { timeout: 20_000 },
  async () => {
    const directory = scratch();
    const store = await open(directory);
    await store.lease(60_000);
    plug(directory, 2);
    const began = performance.now();
    await expect(store.wait(['k'], { timeoutMs: 100 })).rejects.toMatchObject({ code: 'deadline-exceeded' });
    await store.close();
    expect(performance.now() - began).toBeLessThan(10_000);
  },
);

test('what no store writes is not read into memory', async () => {
  const directory = scratch();
  const store = await open(directory);
  const path = join(directory, 'log', '1'.padStart(16, '0'));
  writeFileSync(path, '');
  truncateSync(path, 1024 * 1024 * 1024);
  const before = process.memoryUsage().rss;
  await store.set('k', Buffer.from('v'));
  expect(process.memoryUsage().rss - before).toBeLessThan(256 * 1024 * 1024);
  expect(await store.get('k')).toEqual(new Uint8Array(Buffer.from('v')));
});

test('a snapshot that is torn is named, with what to do', async () => {
  const directory = scratch();
  const store = await open(directory);
  await store.set('k', Buffer.from('v'));
  writeFileSync(join(directory, 'snapshots', '600'), 'torn');
  const failure = {
    code: 'unavailable',
    message: `snapshot 600 of the store in '${directory}' cannot be read: a frame ends before its fields; delete it, or give another folder [unavailable]`,
  };
  await expect(store.get('k')).rejects.toMatchObject(failure);
  await expect(fileStore(directory)).rejects.toMatchObject(failure);
});

test('a folder that is emptied and used again is a store that started anew, to those who had it open too', async () => {
  const directory = scratch();
  const former = await open(directory);
  for (let i = 0; i < 5; i++) await former.set(`k${i}`, Buffer.from('former'));
  const lease = await former.lease(60_000);
  const events = former.watch('')[Symbol.asyncIterator]();
  await former.get('k0');
  for (const name of readdirSync(directory)) rmSync(join(directory, name), { recursive: true });
  await expect(former.set('k0', Buffer.from('lost'))).rejects.toMatchObject({
    code: 'unavailable',
    message: `the store in '${directory}' was removed; a worker that starts makes it again [unavailable]`,
  });
  const next = await open(directory);
  await next.set('k0', Buffer.from('next'));
  expect((await events.next()).value).toEqual({ type: 'resync', key: '' });
  // Of the same number as the former one's.
  const other = await next.lease(60_000);
  await next.set('held', Buffer.from('next'), { lease: other });
  expect(await lease.lost).toMatchObject({ message: `the store in '${directory}' was emptied [unavailable]` });
  await lease.revoke();
  expect([...(await former.list('')).keys()]).toEqual(['held', 'k0']);
  const counted = await Promise.all([former, next, former, next].map((store) => store.add('n', 1n)));
  expect(counted.sort()).toEqual([1n, 2n, 3n, 4n]);
});

/** A folder on a disk of its own, of so many bytes; undefined where this user may make none. */
function smallDisk(bytes: number): string | undefined {
  const directory = scratch();
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${bytes}`, 'tmpfs', directory], { stdio: 'ignore' });
  } catch {
    return undefined;
  }
  cleanups.push(() => execFileSync('umount', ['-l', directory]));
  return directory;
}

test('a disk that is full is said to be, keeps leases, and is not filled by what did not fit', async (context) => {
  const directory = smallDisk(256 * 1024);
  if (directory === undefined) return context.skip('no disk can be made here');
  const store = await open(directory);
  const lease = await store.lease(1_000);
  await store.set('member', Buffer.from('v'), { lease });
  const failures: unknown[] = [];
  for (let i = 0; i < 60; i++)
    await store.set(`k${i}`, Buffer.alloc(8_000)).catch((error: unknown) => failures.push(error));
  expect(failures.length).toBeGreaterThan(10);
  for (const failure of failures)
    expect(failure).toMatchObject({
      code: 'unavailable',
      executed: 'maybe',
      message: `the store in '${directory}' cannot be used: ENOSPC: no space left on device, write [unavailable]`,
    });
  expect(readdirSync(join(directory, 'new'))).toEqual([]);
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  expect(await store.get('member')).toBeDefined();
  await store.close();
});

test(
  'a disk that was full for longer than a lease has cost nobody its lease when there is room again',
  { timeout: 20_000 },
  async (context) => {
    const directory = smallDisk(512 * 1024);
    if (directory === undefined) return context.skip('no disk can be made here');
    const store = await open(directory);
    const other = await open(directory);
    const lease = await store.lease(1_000);
    let lost: Error | undefined;
    void lease.lost.then((error) => (lost = error));
    await store.set('member', Buffer.from('v'), { lease });
    await other.get('member');
    // Takes every byte that comes free, at once.
    const hog = join(directory, 'hog');
    const hogs = [1, 2].map(() => spawn('sh', ['-c', `while true; do cat /dev/zero >> '${hog}'; done 2> /dev/null`]));
    for (const one of hogs) cleanups.push(() => one.kill('SIGKILL'));
    await new Promise((resolve) => setTimeout(resolve, 4_000));
    for (const one of hogs) one.kill('SIGKILL');
    await Promise.all(hogs.map((one) => once(one, 'exit')));
    const [beat] = readdirSync(join(directory, 'beats'));
    expect(statSync(join(directory, 'beats', beat as string)).size).toBeGreaterThan(0);
    rmSync(hog);
    await new Promise((resolve) => setTimeout(resolve, 2_500));
    expect([lost, (await other.get('member'))?.length]).toEqual([undefined, 1]);
  },
);

test('an operation is done although no snapshot can be made after it', async () => {
  const directory = scratch();
  const log = new FileLog(directory, UNHEARD);
  await log.open();
  const add = (): Promise<bigint> => log.perform(() => entries.add('n', 1n));
  for (let i = 1; i < SNAPSHOT_EVERY; i++) await add();
  const draftsFail = vi
    .spyOn(log as unknown as { snapshot(): Promise<void> }, 'snapshot')
    .mockRejectedValue(new Error('ENOSPC'));
  expect(await add()).toBe(BigInt(SNAPSHOT_EVERY));
  draftsFail.mockRestore();
  expect(await add()).toBe(BigInt(SNAPSHOT_EVERY + 1));
  expect(readdirSync(join(directory, 'snapshots'))).toEqual([]);
});
