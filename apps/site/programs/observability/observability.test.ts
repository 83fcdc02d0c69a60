/** @file The observed group of the guide: its metrics, its slow call, its trace, and what `backwire inspect` says of it. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { started } from '../../test/started.ts';

const cli = resolve(import.meta.dirname, '../../../../packages/backwire/src/cli.ts');

it('a group is seen from outside and inside', { timeout: 90_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'backwire-observed-'));
  const trace = join(folder, 'trace.json');
  let address = '';
  const group = started({
    program: join(import.meta.dirname, 'main.ts'),
    processes: 2,
    env: { METRICS_PORT: '0', TRACE: trace },
    onGroup: (group) => (address = group),
  });
  try {
    const [, url = ''] = await group.prints(/metrics: (\S+)/);
    await group.prints(/working/);
    expect(group.output()).toContain('slow: observed/slow on worker1');
    expect(group.output()).toMatch(/rpc_sync#observed\/work\(worker0 -> worker1\)#remote_op: aten::mm/);
    expect(readFileSync(trace, 'utf8')).toContain('traceEvents');
    const text = await (await fetch(url)).text();
    const timed = /rpc_client_call_duration_seconds_count\{[^}]*rpc_method="observed\/work"[^}]*\} (\d+)/.exec(text);
    expect(Number(timed?.[1])).toBeGreaterThanOrEqual(10);
    const { stdout } = await promisify(execFile)(process.execPath, [
      ...['--import', 'tsx', '--conditions=@backwire/source'],
      ...[cli, 'inspect', address],
    ]);
    expect(stdout).toContain('worker0');
    expect(stdout).toContain('worker1');
  } finally {
    await group.stop();
    rmSync(folder, { recursive: true });
  }
});
