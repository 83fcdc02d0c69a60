/** @file What this package writes, as bytes for torch to read. */
import { ScriptWriter } from '../src/pickle/script-writer.ts';
import { writePython } from '../src/pickle/python-writer.ts';
import { writeTable } from '../src/table/write.ts';
import type { TravellingTensor } from '../src/values/opaque-tensor.ts';
import { captures } from './captures.ts';
import { bodyOf } from './reading.ts';
import { rewritten } from './rewriting.ts';
import { pythonCases, scriptCases } from './written-cases.ts';

/** Bytes in base64, with the tensors that go with them. */
export interface Written {
  readonly dialect: 'python' | 'script' | 'message';
  /** Of a message. */
  readonly type?: number;
  readonly bytes: string;
  readonly table?: string;
  readonly storages?: readonly string[];
}

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');

function withTensors(written: Omit<Written, 'table' | 'storages'>, tensors: readonly TravellingTensor[]): Written {
  if (tensors.length === 0) return written;
  const table = writeTable(tensors);
  const storages = table.storages.map(base64);
  table.release();
  return { ...written, table: base64(table.bytes), storages };
}

/** By name: every case, and every captured message that is not written byte for byte as it was. */
export function writtenGoldens(): Record<string, Written> {
  const goldens: Record<string, Written> = {};
  for (const [name, value] of pythonCases) {
    const { bytes, tensors } = writePython(value);
    goldens[`python: ${name}`] = withTensors({ dialect: 'python', bytes: base64(bytes) }, tensors);
  }
  for (const [name, value] of scriptCases) {
    const writer = new ScriptWriter();
    writer.value(value);
    goldens[`script: ${name}`] = withTensors({ dialect: 'script', bytes: base64(writer.finish()) }, writer.tensors);
  }
  return { ...goldens, ...changedMessages() };
}

function changedMessages(): Record<string, Written> {
  const changed: Record<string, Written> = {};
  for (const message of captures().flatMap(({ messages }) => messages)) {
    if (/tensor sparse csr|tensor quantized/.test(message.title)) continue;
    const { type, body, tensors } = rewritten(bodyOf(message));
    if (Buffer.compare(body, message.body) === 0) continue;
    changed[message.title] = withTensors({ dialect: 'message', type, bytes: base64(body) }, tensors);
  }
  return changed;
}
