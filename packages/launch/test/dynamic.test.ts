/** @file Groups without a fixed size, as the command starts them: their secret, and the world size that they do not have. */
import { spawn } from 'node:child_process';
import { join, resolve } from 'node:path';
import { freePort } from '@backwire/testing';
import { describe, expect, it } from 'vitest';

const root = resolve(import.meta.dirname, '..');
const member = join(root, 'test/member.ts');
const dynamic = ['--membership', 'dynamic', '--nproc-per-node', '2'];

interface Finished {
  readonly code: number | null;
  readonly output: string;
}

/** Runs the command without a secret in its environment, and with the variables of another group. */
function run(argv: readonly string[]): Promise<Finished> {
  const { BACKWIRE_SECRET: _, BACKWIRE_SECRET_FILE: __, ...env } = process.env;
  const child = spawn(
    process.execPath,
    ['--import', 'tsx', '--conditions=@backwire/source', join(root, 'test/command.ts'), 'run', ...argv],
    { env: { ...env, WORLD_SIZE: '7', ROLE_WORLD_SIZE: '7' }, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  return new Promise((done) => child.on('close', (code) => done({ code, output })));
}

describe('a dynamic group on one host', { timeout: 60_000 }, () => {
  const met = 'met worker0 worker1, WORLD_SIZE is not set';

  it('gets a secret of its own when none is given', async () => {
    const { code, output } = await run(['--standalone', ...dynamic, member, '2']);
    expect(output.split(met).length, output).toBe(3);
    expect(code, output).toBe(0);
  });

  it('does so over a rendezvous too, and says whose port it is when another group has it', async () => {
    const endpoint = `127.0.0.1:${await freePort()}`;
    const flags = [...dynamic, '--rdzv-backend', 'c10d', '--rdzv-endpoint', endpoint];
    const first = run([...flags, member, '2']);
    const second = await run([...flags, member, '2']);
    const both = [await first, second];
    // Whichever comes second; both may have run after each other.
    for (const { code, output } of both)
      if (code === 0) expect(output.split(met).length, output).toBe(3);
      else expect(output).toMatch(/port \d+ on 127\.0\.0\.1 is already in use/);
    expect(both.some(({ code }) => code === 0)).toBe(true);
  });

  it('explains to a program that passes WORLD_SIZE on that there is none', async () => {
    const { code, output } = await run(['--standalone', ...dynamic, member, '2', 'sized']);
    expect(code).toBe(1);
    expect(output).toContain('this run has --membership dynamic, so there is no WORLD_SIZE; leave worldSize out');
  });

  it('says once what failed, and once who says it', async () => {
    const { code, output } = await run(['--standalone', ...dynamic, member, '2', 'sized']);
    expect(code).toBe(1);
    expect(output.split('first failure:'), output).toHaveLength(2);
    expect(output.split(`backwire: ${member} failed\n`), output).toHaveLength(2);
    expect(output).toContain(`backwire: the group ends: ${member} failed\n`);
    expect(output).not.toContain('backwire: backwire:');
  });
});
