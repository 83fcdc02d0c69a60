/** @file The schema and what is generated from it: current, formatted, and compatible with what was published. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { MessageType, isRequest, isResponse, messageTypeName, messageTypeOf } from './internal.ts';

const root = resolve(import.meta.dirname, '..');
const buf = resolve(root, '../../node_modules/.bin/buf');
const temporary = mkdtempSync(join(tmpdir(), 'backwire-gen-'));
afterAll(() => rmSync(temporary, { recursive: true, force: true }));

function run(...args: string[]): string {
  try {
    return execFileSync(buf, args, { cwd: root, encoding: 'utf8', env: { ...process.env, BUF_CACHE_DIR: temporary } });
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string };
    throw new Error(`buf ${args.join(' ')}: ${stdout ?? ''}${stderr ?? ''}`, { cause: error });
  }
}

describe('the schema', () => {
  it('is linted and formatted', () => {
    run('lint');
    expect(run('format', '--diff', '--exit-code', 'proto')).toBe('');
  });

  it('can still be read by peers that have the published version', () => {
    run('breaking', '--against', 'proto/v1.binpb');
  });

  it('is what src/gen was generated from', () => {
    run('generate', '--output', temporary);
    const folder = 'src/gen/backwire/wire/v1';
    const fresh = readdirSync(join(temporary, folder)).sort();
    expect(readdirSync(join(root, folder)).sort()).toEqual(fresh);
    for (const file of fresh)
      expect(
        readFileSync(join(root, folder, file), 'utf8') === readFileSync(join(temporary, folder, file), 'utf8'),
        `${file}: run npm run generate -w @backwire/wire`,
      ).toBe(true);
  });
});

describe('message types', () => {
  it('have the numbers of torch.distributed.rpc', () => {
    const torch = {
      SCRIPT_CALL: 0x100,
      SCRIPT_RET: 0x201,
      PYTHON_CALL: 0x102,
      PYTHON_RET: 0x203,
      SCRIPT_REMOTE_CALL: 0x104,
      PYTHON_REMOTE_CALL: 0x105,
      REMOTE_RET: 0x206,
      SCRIPT_RREF_FETCH_CALL: 0x107,
      PYTHON_RREF_FETCH_CALL: 0x108,
      SCRIPT_RREF_FETCH_RET: 0x209,
      PYTHON_RREF_FETCH_RET: 0x20a,
      RREF_USER_DELETE: 0x10b,
      RREF_FORK_REQUEST: 0x10c,
      RREF_CHILD_ACCEPT: 0x10d,
      RREF_ACK: 0x20e,
      FORWARD_AUTOGRAD_REQ: 0x10f,
      FORWARD_AUTOGRAD_RESP: 0x210,
      BACKWARD_AUTOGRAD_REQ: 0x111,
      BACKWARD_AUTOGRAD_RESP: 0x212,
      CLEANUP_AUTOGRAD_CONTEXT_REQ: 0x113,
      CLEANUP_AUTOGRAD_CONTEXT_RESP: 0x214,
      RUN_WITH_PROFILING_REQ: 0x115,
      RUN_WITH_PROFILING_RESP: 0x216,
      RREF_BACKWARD_REQ: 0x117,
      RREF_BACKWARD_RESP: 0x218,
      EXCEPTION: 0x237,
      UNKNOWN: 0x3c,
    };
    expect(MessageType).toMatchObject(torch);
    for (const type of Object.values(torch).filter((t) => t !== 0x3c))
      expect([isRequest(type), isResponse(type)]).toContain(true);
  });

  it('have numbers and serial numbers of their own, and one direction each', () => {
    const values = Object.values(MessageType);
    expect(new Set(values.map((value) => value & 0xff)).size).toBe(values.length);
    for (const value of values) expect(isRequest(value) && isResponse(value)).toBe(false);
  });

  it('are found by name and by number', () => {
    expect(messageTypeName(0x102)).toBe('PYTHON_CALL');
    expect(messageTypeName(0x1ff)).toBe('0x1ff');
    expect(messageTypeOf('RREF_ACK')).toBe(0x20e);
    expect(messageTypeOf('toString')).toBeUndefined();
  });
});
