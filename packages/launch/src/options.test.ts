/** @file What a program asks of `launch()`: options that are refused, how long workers are waited for, where they run. */
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { launch } from './index.ts';

const worker = resolve(import.meta.dirname, '../test/worker.ts');

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'backwire-launch-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

describe('launch()', () => {
  it('refuses impossible options before it starts anything', async () => {
    await expect(launch({ program: worker, processes: 0 })).rejects.toThrow(
      'processes has to be a whole number from 1 to 4096, got 0',
    );
    for (const name of ['stopGraceMs', 'joinTimeoutMs', 'lastCallMs'])
      for (const wrong of [NaN, -5, '3'])
        await expect(launch({ program: worker, [name]: wrong })).rejects.toThrow(
          `${name} has to be a number of millis`,
        );
    for (const [name, why] of [
      ['FOO', "signals: there is no signal 'FOO'"],
      ['SIGSTOP', "signals: no process can handle 'SIGSTOP'"],
    ])
      await expect(launch({ program: worker, signals: [name as never] })).rejects.toThrow(why);
    for (const [rendezvous, rendezvousStore, why] of [
      ['redis', 'etcd://:hunter2@a', "the rendezvous store 'etcd://a' is no address redis://… or rediss://…"],
      ['etcd', 'etcds://a:99999', "the rendezvous store 'etcds://a:99999' is no address etcd://… or etcds://…"],
      ['redis', 'redis://ann:12345/hunter2@a:6379', "the rendezvous store 'redis://a:6379' is no address redis://… or rediss://…; in"], // prettier-ignore
      ['redis', 'ann:hunter2@a', "the rendezvous store 'a' is no address"],
      ['hosted', 'redis://:hunter2@a', "the rendezvous store 'redis://a' is for rendezvous 'etcd' or 'redis'"],
    ] as const)
      await expect(launch({ program: worker, rendezvous, rendezvousStore })).rejects.toThrow(why);
    await expect(launch({ program: worker, nodes: 2 })).rejects.toThrow('master port');
    await expect(launch({ program: worker, processes: '2' as never })).rejects.toThrow("got the string '2'");
  });

  it('names the port that is taken where browsers would reach the store', async () => {
    const holder = createServer().listen(0, '127.0.0.1');
    await once(holder, 'listening');
    const { port } = holder.address() as AddressInfo;
    vi.stubEnv('BACKWIRE_STORE_WS', String(port));
    await expect(launch({ program: worker })).rejects.toThrow(`port ${port} on 127.0.0.1 is already in use`);
    holder.close();
  });

  it.each([
    [{ membership: 'dynmic' }, "membership has to be 'static' or 'dynamic', got 'dynmic'"],
    [{ rendezvous: 'rediss://u:hunter2@h:1' }, "rendezvous has to be 'hosted' or 'etcd' or 'redis', got "],
    [{ rendezvous: 'c10d' }, "rendezvous has to be 'hosted' or 'etcd' or 'redis', got 'c10d'"],
    [{ rendezvousStore: 5 }, 'rendezvousStore has to be a text, got 5'],
    [{ masterAddr: 5 }, 'masterAddr has to be a text, got 5'],
    [{ localAddr: null }, 'localAddr has to be a text, got null'],
    [{ runId: 7n }, 'runId has to be a text, got 7'],
    [{ role: {} }, 'role has to be a text, got an object of class Object'],
    [{ logDir: ['logs'], tee: 3 }, 'logDir has to be a text, got a list'],
    [{ cwd: new URL('file:///tmp') }, 'cwd has to be a text, got an object of class URL'],
    [{ args: 'train' }, "args has to be a list of texts, got 'train'"],
    [{ args: [, 'x'] }, 'args has to be a list of texts, got undefined at 0'], // eslint-disable-line no-sparse-arrays
    [{ execArgv: [5] }, 'execArgv has to be a list of texts, got 5 at 0'],
    [{ signals: 'SIGINT' }, "signals has to be a list of texts, got 'SIGINT'"],
    [{ inherit: ['0'] }, "inherit has to be a list of ranks, whole numbers from 0, got '0' at 0"],
    [{ label: 'worker' }, "label has to be a function, got 'worker'"],
    [{ shown: [0] }, 'shown has to be a function, got a list'],
    [{ tee: '3', logDir: 'logs' }, "tee has to be a function, got '3'"],
    [{ onStart: null }, 'onStart has to be a function, got null'],
    [{ stdout: 'out.log' }, "stdout has to be a stream that is written to, got 'out.log'"],
    [{ native: 'no' }, "native has to be true or false, got 'no'"],
    [{ signal: new AbortController() }, 'signal has to be an AbortSignal, got an object of class AbortController'],
    [{ local: { first: 0 } }, 'local has to be { first, size }, whole numbers, got an object of class Object'],
    [{ env: new Map([['A', 'b']]) }, 'env has to be an object of texts, got an object of class Map'],
    [{ env: 'A=b' }, "env has to be an object of texts, got 'A=b'"],
    [{ env: { A: {} } }, 'env has to be an object of texts, got an object of class Object for A'],
    [{ env: { A: 'b', C: null } }, 'env has to be an object of texts, got null for C'],
    [{ processes: Object.create(null) as unknown }, 'processes has to be a whole number from 1 to 4096, got an object'],
  ])('refuses what is no word or text of an option: %o', async (given, why) => {
    const refused = launch({ program: worker, ...(given as object) });
    await expect(refused).rejects.toThrow(why);
    await expect(refused).rejects.not.toThrow('hunter2');
  });

  it('writes numbers among the arguments as they are, as it does in the environment', async () => {
    const program = join(folder, 'numbers.mjs');
    writeFileSync(program, `process.exit(process.argv[3] === '5' && process.env.N === '7' ? 0 : 1)`);
    const args = ['--epochs', 5] as string[];
    const env = { N: 7 } as unknown as Record<string, string>;
    expect((await launch({ program, args, env, execArgv: [] })).exitCode).toBe(0);
  });

  it('waits for workers as long as it is told, for ever too', async () => {
    const program = join(folder, 'slow.mjs');
    const listens = JSON.stringify(join(folder, 'listens'));
    writeFileSync(
      program,
      `import { existsSync, writeFileSync } from 'node:fs';
      process.on('SIGTERM', () => setTimeout(() => process.exit(0), 300));
      if (process.env.RANK === '0') writeFileSync(${listens}, '');
      setInterval(() => process.env.RANK === '1' && existsSync(${listens}) && process.exit(6), 20);`,
    );
    const { exits } = await launch({ program, processes: 2, stopGraceMs: Infinity, execArgv: [] });
    expect(exits.map(({ code, signal }) => [code, signal])).toEqual([
      [6, null],
      [0, null],
    ]);
  });

  it('runs workers in the folder that it is told', async () => {
    writeFileSync(join(folder, 'here.mjs'), "import { writeFileSync } from 'node:fs'; writeFileSync('mark', '');");
    expect(await launch({ program: 'here.mjs', cwd: folder })).toMatchObject({ ok: true });
    expect(existsSync(join(folder, 'mark'))).toBe(true);
    const nowhere = join(folder, 'nowhere');
    await expect(launch({ program: worker, cwd: nowhere })).rejects.toThrow(
      `'${nowhere}' for the workers is no folder`,
    );
  });

  it('has workers listen at the address that it is told, on one host too', async () => {
    const program = join(folder, 'bind.mjs');
    writeFileSync(program, 'process.exit(process.env.BACKWIRE_BIND === "127.0.0.2" ? 0 : 1);');
    expect((await launch({ program, localAddr: '127.0.0.2' })).ok).toBe(true);
  });

  it('leads workers in another folder to the file of the secret', async () => {
    writeFileSync(join(folder, 'secret'), 'a secret of a launch', { mode: 0o600 });
    writeFileSync(
      join(folder, 'tells.mjs'),
      "import { writeFileSync } from 'node:fs'; writeFileSync('told', process.env.BACKWIRE_SECRET_FILE);",
    );
    vi.stubEnv('BACKWIRE_SECRET_FILE', relative('', join(folder, 'secret')));
    try {
      await launch({ program: 'tells.mjs', cwd: folder });
      expect(readFileSync(join(folder, 'told'), 'utf8')).toBe(join(folder, 'secret'));
    } finally {
      vi.unstubAllEnvs();
    }
  });

  it('says that it needs a program', async () => {
    for (const given of [{ processes: 2 }, { program: '' }])
      await expect(launch(given as never)).rejects.toThrow(
        "launch() needs the path of a program: launch({ program: 'worker.ts' }), got",
      );
  });
});
