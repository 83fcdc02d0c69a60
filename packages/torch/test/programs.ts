/** @file Pickles as what they do: the same whatever was remembered under which number. */

/** Bytes of the argument of an instruction, or how they are counted. */
const ARGUMENTS: ReadonlyMap<number, number | 'line2' | 'u8' | 'u32' | 'u64'> = new Map<
  number,
  number | 'line2' | 'u8' | 'u32' | 'u64'
>([
  [0x80, 1],
  [0x95, 8],
  [0x47, 8],
  [0x4a, 4],
  [0x4b, 1],
  [0x4d, 2],
  [0x8a, 'u8'],
  [0x58, 'u32'],
  [0x8c, 'u8'],
  [0x42, 'u32'],
  [0x43, 'u8'],
  [0x8e, 'u64'],
  [0x63, 'line2'],
  [0x68, 1],
  [0x6a, 4],
  [0x71, 1],
  [0x72, 4],
]);
const FRAME = 0x95;
const GETS: ReadonlySet<number> = new Set([0x68, 0x6a]);
const PUTS: ReadonlySet<number> = new Set([0x71, 0x72, 0x94]);

/**
 * The instructions of a pickle. Frames are left out; text that is remembered stands wherever it is used, since Python remembers texts
 * by identity and not by content; what else is remembered is numbered anew.
 */
export function programOf(pickle: Uint8Array): string[] {
  const bytes = Buffer.from(pickle);
  const program: string[] = [];
  const memo: string[] = [];
  let numbered = 0;
  let last = '';
  for (let at = 0; at < bytes.length;) {
    const code = bytes[at++] as number;
    const length = argumentBytes(bytes, at, ARGUMENTS.get(code) ?? 0);
    const argument = bytes.toString('latin1', at, at + length);
    at += length;
    if (code === FRAME) continue;
    if (PUTS.has(code)) {
      memo.push(/^(?:8c|58) /.test(last) ? `8c ${last.slice(last.indexOf(':'))}` : `get #${numbered++}`);
      continue;
    }
    last = GETS.has(code)
      ? (memo[argument.charCodeAt(0) + (length > 1 ? argument.charCodeAt(1) * 256 : 0)] as string)
      : code === 0x8c || code === 0x58
        ? `8c :${argument.slice(code === 0x8c ? 1 : 4)}`
        : `${code.toString(16)} ${argument}`;
    program.push(last);
  }
  return program;
}

function argumentBytes(bytes: Buffer, at: number, kind: number | 'line2' | 'u8' | 'u32' | 'u64'): number {
  if (typeof kind === 'number') return kind;
  if (kind === 'line2') return bytes.indexOf(10, bytes.indexOf(10, at) + 1) + 1 - at;
  if (kind === 'u8') return 1 + (bytes[at] as number);
  return kind === 'u32' ? 4 + bytes.readUInt32LE(at) : 8 + Number(bytes.readBigUInt64LE(at));
}
