/** @file Values of classes of programs: registered types, and extensions of a codec. */
import { describe, expect, it } from 'vitest';
import { decodeValue, encodeValue, registerValueType } from '../index.ts';
import { ByteWriter, ValueCodec, valueTypeNamed } from '../internal.ts';
import { roundTrip } from '../testdata/round-trip.ts';

describe('registered types', () => {
  class Point {
    readonly x: number;
    readonly y: unknown;
    constructor(x: number, y: unknown) {
      this.x = x;
      this.y = y;
    }
  }
  class Point3 extends Point {}
  const type = {
    name: 'test.Point',
    match: Point,
    encode: (p: Point) => [p.x, p.y],
    decode: (plain: unknown) => new Point((plain as [number, unknown])[0], (plain as [number, unknown])[1]),
  };
  registerValueType(type);

  it('travel by value, nested and as a base class', () => {
    expect(roundTrip([new Point(1, new Point(2, null))])).toEqual([new Point(1, new Point(2, null))]);
    expect(roundTrip(new Point3(1, 2))).toEqual(new Point(1, 2));
  });

  it('that are lists, maps or sets travel as what they are; others of these as plain ones', () => {
    class Row extends Array<unknown> {}
    class Table extends Map<unknown, unknown> {}
    class Bag extends Set<unknown> {}
    class Plain extends Array<unknown> {}
    const made = [Row, Table, Bag].map((match) =>
      registerValueType<Iterable<unknown>>({
        name: `test.${match.name}`,
        match,
        encode: (value) => [...value],
        decode: (plain) => (match === Row ? Row.from(plain as unknown[]) : new match(plain as never)),
      }),
    );
    expect(made).toHaveLength(3);
    const [row, table, bag, plain] = roundTrip([
      Row.of<unknown>(1, Row.of(2), 3, 4, 5, 6, 7, 8, 9),
      new Table([['a', Row.of(1)]]),
      new Bag([1]),
      Plain.of(1),
    ]) as object[];
    expect([row, table, bag, plain].map((value) => value?.constructor)).toEqual([Row, Table, Bag, Array]);
    expect((row as unknown[])[1]).toBeInstanceOf(Row);
    expect((table as Table).get('a')).toEqual(Row.of(1));
    expect([...(bag as Bag)]).toEqual([1]);
  });

  it('mean one class: the same again is fine, another throws and names both', () => {
    registerValueType(type);
    class Other {}
    expect(() => registerValueType({ ...type, match: Other as never })).toThrow(
      "'test.Point' is class Point already; class Other needs another name",
    );
    expect(() => registerValueType({ ...type, name: 'test.Point2' })).toThrow(
      "class Point is value type 'test.Point' already; it cannot be 'test.Point2' too",
    );
    expect(() => registerValueType({ ...type, name: '' })).toThrow(TypeError);
  });

  it('say what they take', () => {
    class Mine {}
    const wrong = (given: unknown) => expect(() => registerValueType(given as typeof type));
    wrong(Mine).toThrow("registerValueType() takes { name: 'Point', match: Point, encode:");
    wrong('Mine').toThrow("registerValueType() takes { name: 'Point', match: Point, encode:");
    wrong({ name: 'Mine' }).toThrow("value type 'Mine' needs a class to match: { name: 'Point',");
    const half = { name: 'Mine', match: Mine, encode: () => 1 };
    wrong(half).toThrow("value type 'Mine' needs a function decode: { name: 'Point',");
    wrong({ ...half, decode: () => 1, encoder: () => 1 }).toThrow(
      "registerValueType(): unknown option 'encoder'; did you mean 'encode'?",
    );
    wrong({ ...half, encode: 1 }).toThrow("value type 'Mine' needs a function encode");
    expect(valueTypeNamed('Mine')).toBeUndefined();
  });

  it('are one table for every copy of this package', async () => {
    const copy = (await import(/* @vite-ignore */ `./types.ts?copy=${1}`)) as {
      valueTypeNamed: typeof valueTypeNamed;
    };
    expect(copy.valueTypeNamed).not.toBe(valueTypeNamed);
    expect(copy.valueTypeNamed('test.Point')?.match).toBe(Point);
  });

  it('cannot contain themselves through what encode gives', () => {
    class Loop {}
    registerValueType({ name: 'test.Loop', match: Loop, encode: (value) => [value], decode: () => new Loop() });
    expect(() => encodeValue(new Loop())).toThrow('contains itself');
  });

  it('that fail to decode give a decode-error with the cause', () => {
    class Fails {}
    const cause = new Error('no');
    registerValueType({
      name: 'test.Fails',
      match: Fails,
      encode: () => 1,
      decode: () => {
        throw cause;
      },
    });
    const { bytes } = encodeValue(new Fails());
    expect(() => decodeValue(bytes, [])).toThrow(expect.objectContaining({ code: 'decode-error', cause }) as Error);
  });
});

describe('extensions', () => {
  class Handle {
    readonly id: number;
    constructor(id: number) {
      this.id = id;
    }
  }
  interface Context {
    peer: string;
    log: string[];
  }
  const codec: ValueCodec<Context> = new ValueCodec<Context>([
    {
      tag: 'handle',
      match: (value) => value instanceof Handle || typeof value === 'function',
      encode(value, ctx) {
        // An extension may use the codec itself.
        codec.write(new ByteWriter(), ['nested'], [], ctx);
        ctx.log.push(`encode for ${ctx.peer}`);
        return { id: value instanceof Handle ? value.id : -1 };
      },
      decode(plain, ctx) {
        ctx.log.push(`decode from ${ctx.peer}`);
        return new Handle((plain as { id: number }).id);
      },
    },
  ]);

  it('get the context of the call, and may encode while a value is being encoded', () => {
    const ctx = { peer: 'ps', log: [] };
    const out = new ByteWriter();
    codec.write(out, [new Handle(4), () => 1, 'after'], [], ctx);
    const bytes = out.finish();
    expect(codec.read(bytes, 0, bytes.length, [], ctx)).toEqual([new Handle(4), new Handle(-1), 'after']);
    expect(ctx.log).toEqual(['encode for ps', 'encode for ps', 'decode from ps', 'decode from ps']);
  });

  it('are known by their tag on the other side only', () => {
    const out = new ByteWriter();
    codec.write(out, new Handle(1), [], { peer: 'x', log: [] });
    expect(() => decodeValue(out.finish(), [])).toThrow("no extension for values of kind 'handle'");
  });
});
