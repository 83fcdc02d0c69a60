/** @file Every captured message of a stock torch group is understood, and written again. */
import { readFileSync } from 'node:fs';
import { messageTypeName } from '@backwire/wire/internal';
import { describe, expect, it } from 'vitest';
import { DEFAULT_TORCH_LIMITS } from '../src/limits.ts';
import { readDescriptor, writeDescriptor } from '../src/pipe/packets.ts';
import { captures } from './captures.ts';
import { bodyOf, textOf } from './reading.ts';

const { values } = JSON.parse(readFileSync(new URL('../golden/values.json', import.meta.url), 'utf8')) as {
  values: Readonly<Record<string, readonly string[]>>;
};
const all = captures().filter(({ messages }) => messages.length > 0);

describe('captured messages', () => {
  it('are all there', () => {
    expect(all.flatMap(({ messages }) => messages)).toHaveLength(488);
    expect(Object.keys(values)).toHaveLength(all.length);
  });

  describe.each(all)('$file: $name', ({ file, name, messages }) => {
    it('say what Python and torch read in them', () => {
      const texts = messages.map((message) => {
        try {
          return textOf(bodyOf(message));
        } catch (error) {
          if (!/quantised|layout other than COO/.test(String(error))) throw error;
          return `${messageTypeName(message.type)} refused`;
        }
      });
      expect(texts).toEqual(values[`${file} / ${name}`]);
    });

    it('have descriptors that are written as they were', () => {
      for (const { descriptor, body, table, storages } of messages) {
        const sizes = storages.map(({ length }) => length);
        const payloads = [4, 8, body.length, table.length];
        const read = readDescriptor(descriptor, DEFAULT_TORCH_LIMITS);
        expect(read.payloads.map(({ nbytes }) => nbytes)).toEqual(payloads);
        expect(read.tensors.map(({ nbytes }) => nbytes)).toEqual(sizes);
        expect(Buffer.from(writeDescriptor(payloads, sizes, DEFAULT_TORCH_LIMITS))).toEqual(Buffer.from(descriptor));
      }
    });
  });
});
