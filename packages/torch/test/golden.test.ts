/** @file Every captured message of a stock torch group is understood, and written again. */
import { readFileSync } from 'node:fs';
import { messageTypeName } from '@backwire/wire/internal';
import { describe, expect, it } from 'vitest';
import { DEFAULT_TORCH_LIMITS } from '../src/limits.ts';
import { readDescriptor, writeDescriptor } from '../src/pipe/packets.ts';
import type { Body } from '../src/messages/commands.ts';
import { writeTable } from '../src/table/write.ts';
import { captures, type CapturedMessage } from './captures.ts';
import { programOf } from './programs.ts';
import { bodyOf, textOf } from './reading.ts';
import { rewritten } from './rewriting.ts';

const { values } = JSON.parse(readFileSync(new URL('../golden/values.json', import.meta.url), 'utf8')) as {
  values: Readonly<Record<string, readonly string[]>>;
};
const all = captures().filter(({ messages }) => messages.length > 0);

/** A message but for the three whose tensors are refused by name. */
function readable(message: CapturedMessage): Body | undefined {
  try {
    return bodyOf(message);
  } catch (error) {
    if (/quantised|layout other than COO/.test(String(error))) return undefined;
    throw error;
  }
}

describe('captured messages', () => {
  it('are written again byte for byte, but for texts that Python took to be other objects', () => {
    const bodies = all
      .flatMap(({ messages }) => messages)
      .flatMap((message) => {
        const body = readable(message);
        return body === undefined ? [] : [{ message, again: rewritten(body) }];
      });
    const same = bodies.filter(({ message, again }) => Buffer.compare(again.body, message.body) === 0);
    expect(bodies).toHaveLength(485);
    expect(same.length).toBe(470);
  });

  it('are all there', () => {
    expect(all.flatMap(({ messages }) => messages)).toHaveLength(488);
    expect(Object.keys(values)).toHaveLength(all.length);
  });

  describe.each(all)('$file: $name', ({ file, name, messages }) => {
    it('say what Python and torch read in them', () => {
      const texts = messages.map((message) => {
        const body = readable(message);
        return body === undefined ? `${messageTypeName(message.type)} refused` : textOf(body);
      });
      expect(texts).toEqual(values[`${file} / ${name}`]);
    });

    it('are written again as torch wrote them', () => {
      for (const message of messages) {
        const body = readable(message);
        if (body === undefined) continue;
        const again = rewritten(body);
        expect(again.type).toBe(message.type);
        // Two things may differ: which texts Python took to be the same object, and the bytes of a view that was computed.
        if (Buffer.compare(again.body, message.body) !== 0)
          expect(programOf(again.body)).toEqual(programOf(message.body));
        const table = writeTable(again.tensors);
        if (name !== 'tensor conj view') {
          expect(Buffer.compare(table.bytes, message.table)).toBe(0);
          expect(table.storages).toHaveLength(message.storages.length);
          table.storages.forEach((storage, i) =>
            expect(Buffer.compare(storage, message.storages[i] as Uint8Array)).toBe(0),
          );
        }
        table.release();
      }
    });

    it('have descriptors that are written as they were', () => {
      for (const { descriptor, body, table, storages } of messages) {
        const sizes = storages.map(({ length }) => length);
        const payloads = [4, 8, body.length, table.length];
        const read = readDescriptor(descriptor, DEFAULT_TORCH_LIMITS);
        expect(read.payloads.map(({ nbytes }) => nbytes)).toEqual(payloads);
        expect(read.tensors.map(({ nbytes }) => nbytes)).toEqual(sizes);
        expect(Buffer.from(writeDescriptor(payloads, sizes))).toEqual(Buffer.from(descriptor));
      }
    });
  });
});
