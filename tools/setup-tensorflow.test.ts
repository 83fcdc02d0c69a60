/** @file What `npm run setup:tensorflow` asks for, with and without `--gpu`: run beside stand-ins of npm, pip and the compiler. */
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const script = join(import.meta.dirname, '../packages/tensor/tools/setup-tensorflow.sh');
const TOOLS = ['npm', 'npx', 'node', 'pip', 'pip3', 'unzip', 'c++', 'make'];

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'backwire-setup-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Runs the script with tools that write down how they were called, and do nothing else but what comes of pip; `failing` fails. */
function setUp(
  args: readonly string[],
  failing = '',
  directory = join(folder, 'work'),
): { status: number | null; stderr: string; calls: string[]; text: string } {
  const log = join(folder, 'log');
  for (const tool of TOOLS) {
    const name = join(folder, tool);
    const lines = [
      '#!/bin/sh',
      `printf '%s LD=%s DEVICE=%s\\n' "${tool} $(echo "$*" | head -1)" "$LD_LIBRARY_PATH" "$BACKWIRE_EXPECT_DEVICE" >>'${log}'`,
      ...(tool === 'pip' ? ['mkdir -p cuda/nvidia/lib', 'touch cuda/nvidia/lib/libcudart.so.12'] : []),
      tool === failing ? `echo '${tool} has failed'; exit 1` : 'exit 0',
    ];
    writeFileSync(name, lines.join('\n'));
    chmodSync(name, 0o755);
  }
  const env = { PATH: `${folder}:/usr/bin:/bin` };
  const { status, stdout, stderr } = spawnSync('sh', [script, ...args, directory], {
    env,
    cwd: folder,
    encoding: 'utf8',
  });
  const calls = existsSync(log) ? readFileSync(log, 'utf8').trim().split('\n') : [];
  return { status, stderr, calls, text: stdout };
}
const versions = (calls: readonly string[], pattern: RegExp): (string | undefined)[] =>
  calls.flatMap((call) => pattern.exec(call)?.[1] ?? []);

describe.skipIf(process.platform === 'win32')('setup:tensorflow', () => {
  it('takes the addon for the cpu and the wheel for the cpu, and checks that it computes there', () => {
    const { status, calls, text } = setUp([]);
    expect(status).toBe(0);
    expect(versions(calls, /^npm install .* (@tensorflow\/\S+)/)).toEqual(['@tensorflow/tfjs-node@4.22.0']);
    expect(versions(calls, /^pip download .* (\S+==\S+)/)).toEqual(['tensorflow_cpu==2.21.0']);
    expect(calls.some((call) => call.startsWith('npx node-pre-gyp install --build-from-source'))).toBe(true);
    expect(calls.at(-1)).toMatch(/^node --import tsx .*LD= DEVICE=$/);
    expect(text).not.toContain('LD_LIBRARY_PATH');
  });

  it('with --gpu takes the addon for a GPU, the wheel for CUDA and its libraries, and checks that it computes on gpu:0', () => {
    const { status, calls, text } = setUp(['--gpu']);
    expect(status).toBe(0);
    const lib = join(folder, 'work/cuda/lib');
    expect(versions(calls, /^npm install .* (@tensorflow\/\S+)/)).toEqual(['@tensorflow/tfjs-node-gpu@4.22.0']);
    expect(versions(calls, /^pip download .* (\S+==\S+)/)).toEqual(['tensorflow==2.21.0']);
    expect(versions(calls, /^pip install --quiet --target cuda (\S+)/)).toEqual(['tensorflow[and-cuda]==2.21.0']);
    expect(existsSync(join(lib, 'libcudart.so.12'))).toBe(true);
    expect(calls.at(-1)).toContain(`LD=${lib} DEVICE=gpu:0`);
    expect(text).toContain(`programs need LD_LIBRARY_PATH=${lib}`);
  });

  it('takes a relative directory from where it is called', () => {
    const { status, calls, text } = setUp(['--gpu'], '', 'work');
    expect([status, text]).toEqual([0, expect.stringContaining(`LD_LIBRARY_PATH=${join(folder, 'work/cuda/lib')}`)]);
    expect(calls.at(-1)).toContain(`LD=${join(folder, 'work/cuda/lib')} DEVICE=gpu:0`);
    expect(existsSync(join(folder, 'work/work'))).toBe(false);
  });

  it('says where the output is when the addon does not build', () => {
    const { status, stderr } = setUp(['--gpu'], 'npx');
    expect(status).toBe(1);
    expect(stderr).toContain('npx has failed');
    expect(stderr).toContain(`the addon did not build; all of its output: ${join(folder, 'work/build.log')}`);
  });

  it.each([['--gpuu'], ['--help'], ['-g']])('refuses %s', (flag) => {
    const { status, stderr, calls } = setUp([flag]);
    expect([status, calls]).toEqual([2, []]);
    expect(stderr).toContain(`unknown flag ${flag}; usage: setup:tensorflow [--gpu] [directory]`);
  });
});
