/** @file Reading the memory of another process of this user (Linux), through the optional package `koffi`. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

/** What a range of another process's memory is. */
export interface RemoteRange {
  readonly address: bigint;
  readonly length: number;
}

export interface CrossMemory {
  /** Where the first byte of `memory` is in this process. @throws TypeError for memory whose place cannot be told. */
  addressOf(memory: Uint8Array): bigint;
  /** Reads the ranges of process `pid`, in order, into `into`, whose lengths are the same. False when not all could be read. */
  read(pid: number, ranges: readonly RemoteRange[], into: readonly Uint8Array[]): boolean;
}

interface Koffi {
  load(path: null): { func(declaration: string): (...args: unknown[]) => unknown };
  struct(name: string, fields: Record<string, string>): unknown;
}

const PR_SET_PTRACER = 0x59616d61;
const PR_SET_PTRACER_ANY = -1;

let loaded: CrossMemory | undefined;
let tried = false;

/** undefined where it cannot work: another system than Linux, or no `koffi`. */
export function crossMemory(): CrossMemory | undefined {
  if (!tried) {
    tried = true;
    loaded = process.platform === 'linux' ? load() : undefined;
  }
  return loaded;
}

function load(): CrossMemory | undefined {
  try {
    const koffi = createRequire(import.meta.url)('koffi') as Koffi;
    const libc = koffi.load(null);
    koffi.struct('backwire_iovec', { base: 'uintptr_t', len: 'size_t' });
    const readv = libc.func(
      'intptr_t process_vm_readv(int pid, const backwire_iovec *local, ulong liovcnt, const backwire_iovec *remote, ulong riovcnt, ulong flags)',
    );
    // Of no bytes: it moves nothing and returns where its first argument is.
    const place = libc.func('uintptr_t memmove(void *to, const void *from, size_t count)');
    allowReaders(libc.func('int prctl(int option, ulong two, ulong three, ulong four, ulong five)'));
    const addressOf = (memory: Uint8Array): bigint => BigInt(place(memory, memory, 0) as number | bigint);
    const read = (pid: number, ranges: readonly RemoteRange[], into: readonly Uint8Array[]): boolean => {
      const local = into.map((memory) => ({ base: addressOf(memory), len: memory.byteLength }));
      const remote = ranges.map(({ address, length }) => ({ base: address, len: length }));
      const total = ranges.reduce((sum, { length }) => sum + length, 0);
      return Number(readv(pid, local, local.length, remote, remote.length, 0)) === total;
    };
    return { addressOf, read };
  } catch {
    return undefined;
  }
}

/** Where the kernel lets only ancestors look (Yama's scope 1), this process allows any reader of the same user: that is what opting in means. */
function allowReaders(prctl: (...args: unknown[]) => unknown): void {
  try {
    const scope = readFileSync('/proc/sys/kernel/yama/ptrace_scope', 'utf8').trim();
    if (scope === '1') prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  } catch {
    // A kernel without Yama asks for the same user only.
  }
}
