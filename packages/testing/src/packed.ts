/**
 * @file Plain data with byte arrays as bytes, and processes in Python that answer it: a length, a JSON text in which
 * `{"$bytes":[offset,length]}` points into what follows. python/packed.py has the same in Python.
 */

const SPECIAL: Readonly<Record<string, number>> = { nan: NaN, inf: Infinity, '-inf': -Infinity, '-0': -0 };

function nameOf(value: number): string | undefined {
  if (Object.is(value, -0)) return '-0';
  if (Number.isFinite(value)) return undefined;
  return Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf';
}

/** Encodes numbers (also those that JSON lacks), texts, lists, tables and Uint8Arrays. What is undefined becomes null. */
export function pack(value: unknown): Uint8Array {
  const chunks: Uint8Array[] = [];
  let at = 0;
  const text = JSON.stringify(plain(value));
  function plain(v: unknown): unknown {
    if (typeof v === 'number') {
      const special = nameOf(v);
      return special === undefined ? v : { $number: special };
    }
    if (v instanceof Uint8Array) {
      chunks.push(v);
      at += v.length;
      return { $bytes: [at - v.length, v.length] };
    }
    if (Array.isArray(v)) return v.map(plain);
    if (typeof v !== 'object' || v === null) return v === undefined ? null : v;
    return Object.fromEntries(Object.entries(v).map(([key, one]) => [key, plain(one)]));
  }
  const header = new TextEncoder().encode(text);
  const out = new Uint8Array(4 + header.length + at);
  new DataView(out.buffer).setUint32(0, header.length, true);
  out.set(header, 4);
  let to = 4 + header.length;
  for (const chunk of chunks) {
    out.set(chunk, to);
    to += chunk.length;
  }
  return out;
}

/** Decodes what `pack` made; null stands for what was undefined. The byte arrays are copies. */
export function unpack(bytes: Uint8Array): unknown {
  const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const blob = bytes.subarray(4 + size);
  return restore(JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size))));
  function restore(v: unknown): unknown {
    if (Array.isArray(v)) return v.map(restore);
    if (typeof v !== 'object' || v === null) return v ?? undefined;
    if ('$number' in v) return SPECIAL[String(v.$number)];
    if ('$bytes' in v) {
      const [offset, length] = v.$bytes as [number, number];
      return new Uint8Array(blob.subarray(offset, offset + length));
    }
    return Object.fromEntries(Object.entries(v).map(([key, one]) => [key, restore(one)]));
  }
}
