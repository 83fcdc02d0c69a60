/** @file Modules as torch pickles them in calls: read, and written again. */
import { readFileSync } from 'node:fs';
import { tensor } from '@backwire/tensor';
import { Seeded, mutate } from '@backwire/testing';
import { WireError } from '@backwire/wire/internal';
import { describe, expect, it } from 'vitest';
import { writePython } from '../src/pickle/python-writer.ts';
import { Describer } from './describe.ts';
import { programOf } from './programs.ts';
import { python } from './reading.ts';

interface Golden {
  readonly bytes: string;
  readonly tensors: readonly (number | readonly number[])[];
  /** What torch reads in the bytes. */
  readonly text: string;
}
const { modules } = JSON.parse(readFileSync(new URL('../golden/modules.json', import.meta.url), 'utf8')) as {
  modules: Readonly<Record<string, Golden>>;
};

describe.each(Object.entries(modules))('%s', (_, { bytes, tensors, text }) => {
  const pickled = Buffer.from(bytes, 'base64');
  const made = tensors.map((content) => tensor(content as number[]));
  const value = python(pickled, made);

  it('says what torch reads in it', () => {
    expect(new Describer().value(value)).toBe(text);
  });

  it('is written as torch wrote it, but for texts that Python took to be other objects', () => {
    expect(programOf(writePython(value).bytes)).toEqual(programOf(pickled));
  });

  it('is refused in words, or says something else, when it is damaged', () => {
    let refused = 0;
    for (let seed = 0; seed < 500; seed++)
      try {
        new Describer().value(python(mutate(new Seeded(seed), pickled, pickled), made));
      } catch (error) {
        expect(error, `seed ${seed}`).toBeInstanceOf(WireError);
        refused++;
      }
    expect(refused).toBeGreaterThan(100);
  });
});
