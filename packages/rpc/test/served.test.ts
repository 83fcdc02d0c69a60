/** @file What an agent serves: the list, what goes with a class, builtins, and the library's own functions that run what others define. */
import { add, mul, nn, optim, rpcName } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import {
  remoteClass,
  remoteFunction,
  rpcClass,
  rpcFunction,
  systemFunction,
  type Kind,
} from '../src/base/definitions.ts';
import { RpcError, rpcInfo } from '../src/base/errors.ts';
import { MAX_NAME_ADVICE_A_SECOND } from '../src/base/limits.ts';
import { Served } from '../src/base/served.ts';

const echo = rpcFunction('served/echo', (x: unknown) => x);
const other = rpcFunction('served/other', () => 0);
class Thing {
  static readonly [rpcName] = 'served/Thing';
  static make(): Thing {
    return new Thing();
  }
  use(): void {}
}
rpcClass(Thing, { methods: ['use'], statics: ['make'] });
class Better extends Thing {}
class Layer extends nn.Linear {}
const TOOLS: Kind = { text: 'tool', includes: ({ name }) => name === 'served/tool' };
const plain = systemFunction('served/system', () => 0);
const runner = systemFunction('served/runs-tools', () => 0, TOOLS);

const serving = (serve?: ConstructorParameters<typeof Served>[0]['serve'], builtins = serve === undefined): Served =>
  new Served({ worker: 'w', serve, builtins, maxResultBytes: 1_000 });
/** 'yes', or the code of the refusal. */
function outcome(ask: () => unknown): string | undefined {
  try {
    ask();
    return 'yes';
  } catch (error) {
    return rpcInfo(error)?.code;
  }
}
const finds = (served: Served, name: string): string | undefined => outcome(() => served.find(name));

it('no name has half of a surrogate pair: over the wire it would be another name', () => {
  const named = (name: string): typeof Thing =>
    class extends Thing {
      static override readonly [rpcName] = name as never;
    };
  for (const [name, shown] of [
    ['served/\ud800x', String.raw`"served/\ud800x"`],
    ['\udc00', String.raw`"\udc00"`],
    ['served/\ud83d', String.raw`"served/\ud83d"`],
  ] as const)
    for (const define of [
      () => rpcFunction(name, () => 0),
      () => rpcClass(named(name), { methods: [] }),
      () => remoteFunction(name),
      () => remoteClass(name),
      () => serving([Object.defineProperty(() => 0, rpcName, { value: name }) as never]),
    ])
      expect(define).toThrow(
        new RpcError(
          'invalid-argument',
          `a definition needs a name that is Unicode, got ${shown}: half of a surrogate pair cannot be sent`,
        ),
      );
  expect(rpcFunction('served/😀', () => 0)[rpcName]).toBe('served/😀');
});

it('names of its own are taken only where it is loaded twice, and that is said', () => {
  expect(() => systemFunction('served/system', () => 1)).toThrow(
    "this process has loaded Backwire twice: both define 'served/system'. 'npm ls @backwire/rpc' tells where they are",
  );
});

describe('all that is defined', () => {
  it('is served, and nothing that is not', () => {
    const all = serving();
    for (const name of ['served/echo', 'served/Thing', 'served/Thing.make', 'aten::add', 'nn.Linear', 'optim.SGD'])
      expect(finds(all, name), name).toBe('yes');
    for (const name of [
      'nothing',
      '__proto__',
      'nn.Module',
      'nn.Sequential',
      'optim.Optimizer',
      'nn.toString',
      'aten::',
    ])
      expect(finds(all, name), name).toBe('not-found');
  });

  const words = (served: Served, name: string): string => {
    try {
      served.find(name);
    } catch (error) {
      return (error as Error).message;
    }
    throw new Error(`'${name}' was found`);
  };

  it('is named where it was probably meant, and only what is served', () => {
    const advice = (served: Served, name: string): string | undefined =>
      /did you mean '(.*)'\?/.exec(words(served, name))?.[1];
    expect(words(serving(), 'served/ecko')).toMatch(
      /^function 'served\/ecko' is not defined on worker 'w'; did you mean 'served\/echo'\? Ensure that it is defined on both caller and callee/,
    );
    expect(advice(serving(), 'served/Thing.Make')).toBe('served/Thing.make');
    expect(advice(serving(), 'Served/thing')).toBe('served/Thing');
    expect(advice(serving(), 'of no other kind at all')).toBeUndefined();
    // What the library uses itself is not for programs.
    expect(advice(serving(), 'served/sistem')).toBeUndefined();
    const narrowed = serving([other]);
    expect(advice(narrowed, 'served/othr')).toBe('served/other');
    for (const name of ['served/ecko', 'served/Thin', 'served/Thing.maek', 'served/sistem'])
      expect(advice(narrowed, name), name).toBeUndefined();
  });

  it('is looked for so often a second at most, whoever asks', () => {
    const served = serving();
    const told = Array.from({ length: 200 }, () => words(served, 'served/ecko').includes('did you mean'));
    expect(told[0]).toBe(true);
    expect(told.filter(Boolean).length).toBeLessThanOrEqual(2 * MAX_NAME_ADVICE_A_SECOND);
  });

  it('may be without builtins', () => {
    const some = serving(undefined, false);
    expect(finds(some, 'served/echo')).toBe('yes');
    for (const name of ['aten::add', 'nn.Linear', 'optim.SGD']) expect(finds(some, name)).toBe('permission-denied');
    expect(outcome(() => some.classOf(new nn.Linear(1, 1)))).toBe('permission-denied');
    expect(outcome(() => some.checkTensors('add', []))).toBe('permission-denied');
    expect(outcome(() => serving().checkTensors('add', []))).toBe('yes');
  });
});

describe('a list', () => {
  it('narrows it, and a class brings its static methods', () => {
    const some = serving([Thing, add, nn.Linear]);
    for (const name of ['served/Thing', 'served/Thing.make', 'aten::add', 'nn.Linear'])
      expect(finds(some, name), name).toBe('yes');
    for (const name of ['served/echo', 'aten::mul', 'nn.ReLU', 'optim.SGD'])
      expect(finds(some, name), name).toBe('permission-denied');
    expect(finds(serving([Thing.make as typeof Thing.make & { [rpcName]: string }]), 'served/Thing.make')).toBe('yes');
    expect(finds(serving([echo]), 'served/Thing.make')).toBe('permission-denied');
  });

  it('may be given the builtins as well', () => {
    const some = serving([echo], true);
    expect([finds(some, 'aten::mul'), finds(some, 'optim.SGD'), finds(some, 'served/other')]).toEqual([
      'yes',
      'yes',
      'permission-denied',
    ]);
  });

  it('keeps what it names, whatever is registered and taken back', () => {
    const some = serving([echo]);
    const before = some.version;
    const off = [some.register(echo), some.register(other), some.register(mul)];
    expect(some.version).toBeGreaterThan(before);
    expect([finds(some, 'served/other'), finds(some, 'aten::mul')]).toEqual(['yes', 'yes']);
    const between = some.version;
    for (const end of off) end();
    for (const end of off) end();
    expect(some.version).toBeGreaterThan(between);
    expect(['served/echo', 'served/other', 'aten::mul'].map((name) => finds(some, name))).toEqual([
      'yes',
      'permission-denied',
      'permission-denied',
    ]);
  });

  it('says what is missing', () => {
    const some = serving([echo]);
    expect(() => some.find('served/other')).toThrow(
      "worker 'w' does not serve 'served/other': it is not named in `serve`",
    );
    expect(() => some.find('aten::add')).toThrow('set `builtins: true` or name it in `serve`');
    expect(() => some.find('served/runs-tools')).toThrow('it serves no tool');
  });
});

describe('objects', () => {
  it('have the class that is published, their own or the nearest they extend', () => {
    const all = serving();
    expect(all.classOf(new Thing())?.name).toBe('served/Thing');
    expect(all.classOf(new Better())?.name).toBe('served/Thing');
    for (const value of [{}, [], null, 5, 'text', undefined, Object.create(null)])
      expect(all.classOf(value)).toBeUndefined();
  });

  it('have none of nn and optim but those very classes', () => {
    const all = serving();
    expect(all.classOf(new nn.Linear(1, 1))?.name).toBe('nn.Linear');
    expect(all.classOf(new nn.Sequential())?.name).toBe('nn.Sequential');
    expect(all.classOf(new optim.SGD([new nn.Linear(1, 1).weight], { lr: 1 }))?.name).toBe('optim.SGD');
    expect(all.classOf(new Layer(1, 1))).toBeUndefined();
  });

  it('are refused when their class is not served', () => {
    expect(outcome(() => serving([echo]).classOf(new Thing()))).toBe('permission-denied');
    expect(outcome(() => serving([echo]).classOf(new Better()))).toBe('permission-denied');
    expect(outcome(() => serving([Thing]).classOf(new Better()))).toBe('yes');
  });
});

describe('a system function', () => {
  it('that runs no code of the program is always served', () => {
    for (const some of [serving(), serving([]), serving([echo], true)]) expect(finds(some, plain[rpcName])).toBe('yes');
  });

  it('that runs some is served where some such is', () => {
    const name = runner[rpcName];
    const none = serving([echo]);
    const unlisted = serving(undefined, false);
    expect([finds(none, name), finds(unlisted, name)]).toEqual(['permission-denied', 'permission-denied']);
    const tool = rpcFunction('served/tool', () => 0);
    expect([finds(none, name), finds(unlisted, name)]).toEqual(['permission-denied', 'yes']);
    const off = none.register(tool);
    expect(finds(none, name)).toBe('yes');
    off();
    expect(finds(none, name)).toBe('permission-denied');
    expect(finds(serving([tool]), name)).toBe('yes');
  });
});
