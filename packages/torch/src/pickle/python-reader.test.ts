/** @file What a pickle of Python may do: what is on the list, what was offered, and nothing else; all of it bounded. */
import { tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { bytes, global, pickle, read } from '../../test/pickles.ts';
import { names as offered } from '../../test/reading.ts';
import { DEFAULT_TORCH_LIMITS } from '../limits.ts';
import { PyTuple } from '../values/containers.ts';
import { PyName } from '../values/name.ts';
import { PyComplex, PyFloat } from '../values/numbers.ts';
import { OpaqueTensor } from '../values/opaque-tensor.ts';
import { PyInstance, PythonUdf, RRefFork, SerializedRemoteModule } from '../values/objects.ts';
import { writePython } from './python-writer.ts';
import { NotOfferedError } from './refusal.ts';
import { fieldsOfRemoteModule, receiver } from './remote-modules.ts';

it('reads a call whose arguments are a list, as programs give them', () => {
  const udf = read(
    pickle(global('torch.distributed.rpc.internal', 'PythonUDF'), 'N](K\x01K\x02e}\x87\x81'),
  ) as PythonUdf;
  expect(udf).toBeInstanceOf(PythonUdf);
  expect([udf.args instanceof PyTuple, ...udf.args]).toEqual([true, 1, 2]);
});

it.each([
  2n ** 2039n,
  2n ** 2040n,
  -(2n ** 2039n),
  -(2n ** 2039n) - 1n,
  3n ** 5_000n,
  -(7n ** 20_000n),
  2n ** 524_287n - 1n,
  -(2n ** 524_287n),
])('an integer of any length is read as it was written: case %#', (value) => {
  expect(read(writePython(value).bytes) === value).toBe(true);
});

it('integers on both sides of each length are in as few bytes as hold them, and read as they were written', () => {
  for (let length = 5; length <= 10; length++) {
    const most = 2n ** BigInt(length * 8 - 1) - 1n;
    for (const value of [most, most - 1n, -most, -most - 1n]) {
      const { bytes: written } = writePython(value);
      const content = written.subarray(-1 - length, -1);
      expect(written.subarray(-3 - length, -1 - length), String(value)).toEqual(Uint8Array.of(0x8a, length));
      expect(BigInt(read(written) as bigint), String(value)).toBe(value);
      // Longer than it need be: as numbers where one can hold them, all the same.
      const sign = value < 0n ? 0xff : 0;
      const longer = pickle(0x8a, length + 1, ...content, sign);
      expect(read(longer), String(value)).toBe(read(written));
    }
  }
});

it('reads types of Python as names, which are factories of dicts and not to be called', () => {
  const factory = (name: string): Uint8Array =>
    pickle(global('collections', 'defaultdict'), global('builtins', name), 0x85, 'R');
  for (const name of ['int', 'float', 'str', 'bool', 'bytes', 'dict', 'tuple', 'object'])
    expect(read(factory(name))).toMatchObject({ factory: new PyName('builtins', name) });
  const called = pickle(global('builtins', 'int'), 'K', 1, 0x85, 'R');
  expect(() => read(called)).toThrow("a pickle calls 'builtins.int', which is not to be called");
});

describe('names', () => {
  it.each([
    ['os', 'system'],
    ['posix', 'system'],
    ['subprocess', 'Popen'],
    ['builtins', 'eval'],
    ['builtins', 'exec'],
    ['builtins', '__import__'],
    ['builtins', 'open'],
    ['nt', 'system'],
    ['torch', 'load'],
    ['torch.jit', 'load'],
    ['functools', 'partial'],
    ['operator', 'attrgetter'],
    ['codecs', 'decode'],
    ['__proto__', 'constructor'],
    ['constructor', 'prototype'],
    ['torch', '__proto__'],
    ['torch', 'constructor'],
    ['builtins', 'hasOwnProperty'],
    ['builtins getattr', ''],
    ['', ''],
  ])('%s.%s is refused, called or not', (module, name) => {
    for (const content of [
      pickle(global(module, name)),
      pickle(global(module, name), '(', 0x8c, 2, 'id', 't', 'R'),
      pickle(global(module, name), ')', 0x81),
    ]) {
      expect(() => read(content)).toThrow(NotOfferedError);
      expect(() => read(content)).toThrow(`a pickle names '${module}.${name}', which is not offered here`);
    }
  });

  it('are refused wherever they stand, and however often', () => {
    expect(() => read(pickle('(', global('os', 'system'), 'l'))).toThrow(/LIST|0x6c/);
    expect(() => read(pickle(']', global('os', 'system'), 'a'))).toThrow(NotOfferedError);
    expect(() => read(pickle('}', 'K', 1, global('os', 'system'), 's'))).toThrow(NotOfferedError);
    expect(() => read(pickle(global('os', 'system'), 0x94, 'h', 0, 0x86))).toThrow(NotOfferedError);
  });

  it('are refused only when all handles behind them have been seen, whatever is done with what they would have made', () => {
    const fork = new RRefFork(1, { worker: 1, local: 2 }, { worker: 3, local: 4 }, 3, 'PyObject');
    const behind = writePython([fork]).bytes.slice(2, -1);
    const unknown = global('app', 'Thing');
    for (const made of [
      [unknown, ')R'],
      [unknown, ')\x81'],
      [unknown, ')}\x92'],
      [unknown, ')\x81}b'],
      [unknown, ')\x81K\x01a'],
      [unknown, ')\x81(K\x01K\x02e'],
      [unknown, ')\x81K\x01K\x02s'],
      // What is made of it in its turn is as unknown; what cannot be made of it is no other error.
      [unknown, ')\x81)\x81'],
      [global('builtins', 'bytearray'), unknown, ')\x81\x85R'],
      [global('torch.distributed.rpc.internal', 'RemoteException'), 'X\x01\x00\x00\x00m', unknown, ')R\x86\x81'],
    ]) {
      const seen: RRefFork[] = [];
      const rref = (given: RRefFork): unknown => seen.push(given);
      const content = Uint8Array.of(...bytes(0x80, 4), ...behind, ...bytes(...made, '.'));
      const asked = (): unknown => read(content, { rref });
      expect(asked, made.join('')).toThrow(NotOfferedError);
      expect(asked).toThrow("a pickle names 'app.Thing'");
    }
    const seen: RRefFork[] = [];
    const [head, tail] = [bytes(0x80, 4, unknown, ')\x81'), bytes('\x86.')];
    const content = Uint8Array.of(...head, ...behind, ...tail);
    expect(() => read(content, { rref: (given) => seen.push(given) })).toThrow("a pickle names 'app.Thing'");
    expect(seen).toEqual([fork]);
  });

  it('are no more than objects may be', () => {
    const limits = { ...DEFAULT_TORCH_LIMITS, maxPickleObjects: 100 };
    const content = pickle(global('app', 'Thing').repeat(101));
    expect(() => read(content, { limits })).toThrow('objects of a pickle (101 over the limit of 100)');
  });

  it('that are called do not lift the limits', () => {
    const limits = { ...DEFAULT_TORCH_LIMITS, maxPickleOps: 1_000 };
    const content = pickle(global('app', 'Thing'), ')\x81', ']'.repeat(2_000));
    expect(() => read(content, { limits })).toThrow(/instructions of a pickle/);
  });

  it('of exceptions that are not offered say what a remote error is called, and no more', () => {
    const failure = (type: string): Uint8Array =>
      pickle(global('torch.distributed.rpc.internal', 'RemoteException'), 0x8c, 1, 'm', type, 0x86, 0x81);
    const known = read(failure(global('builtins', 'KeyError'))) as { type: PyName };
    expect(known.type.path).toBe('builtins.KeyError');
    const unknown = read(failure(global('app.errors', 'Custom'))) as { type: PyName };
    expect(unknown.type).toMatchObject({ module: 'app.errors', name: 'Custom' });
    // The same name may not stand elsewhere.
    expect(() =>
      read(
        pickle(
          global('a', 'B'),
          0x94,
          global('torch.distributed.rpc.internal', 'RemoteException'),
          0x8c,
          1,
          'm',
          'h',
          0,
          0x86,
          0x81,
          0x86,
        ),
      ),
    ).toThrow(NotOfferedError);
  });

  it('that were offered are values, classes and methods', () => {
    const call = read(
      writePython(new PyInstance(new PyName('capfns', 'Point'), [], { state: new Map([['x', 1]]) })).bytes,
      { names: offered },
    );
    expect(call).toBeInstanceOf(PyInstance);
    expect(call).toMatchObject({ made: 'new', state: new Map([['x', 1]]) });
    const called = read(pickle(global('capfns', 'Point'), 'K', 5, 0x85, 'R'), { names: offered });
    expect(called).toMatchObject({ made: 'call', args: [5] });
    const keywords = read(pickle(global('capfns', 'Point'), ')', '}', 0x8c, 1, 'k', 'K', 1, 's', 0x92), {
      names: offered,
    });
    expect(keywords).toMatchObject({ made: 'new', kwargs: new Map([['k', 1]]) });
  });

  it('getattr gives the two receivers and what was offered', () => {
    const getattr = (owner: string, name: string): Uint8Array =>
      pickle(global('builtins', 'getattr'), owner, 0x8c, name.length, name, 0x86, 'R', 'K', 0, 0x85, 'R');
    const internal = global('torch.distributed.rpc.internal', '_InternalRPCPickler');
    const t = tensor([1]);
    expect(read(getattr(internal, '_tensor_receiver'), { tensors: [t] })).toBe(t);
    expect(() => read(getattr(internal, '_tensor_receiver'))).toThrow(/the place of a tensor/);
    expect(() => read(getattr(internal, 'serialize'))).toThrow(/the pickler has no 'serialize' here/);
    expect(() => read(getattr(internal, '__class__'))).toThrow(/has no '__class__'/);
    expect(() => read(getattr(']', 'constructor'))).toThrow(/'constructor' of what a pickle names is not offered/);
    expect(() => read(getattr('}', '__proto__'))).toThrow(/not offered/);
  });

  it('a call of something that is no name is refused', () => {
    expect(() => read(pickle('K', 1, ')', 'R'))).toThrow(/calls a value, which is not to be called/);
    expect(() => read(pickle(global('builtins', 'Ellipsis'), ')', 'R'))).toThrow(/calls 'builtins.Ellipsis'/);
    expect(() => read(pickle(global('builtins', 'set'), 'K', 1, 'R'))).toThrow(
      /arguments of a call in a pickle are no tuple/,
    );
    expect(() => read(pickle(global('builtins', 'set'), ')', 0x81))).toThrow(/calls 'builtins.set'/);
    expect(() => read(pickle(']', '}', 'b'))).toThrow(/sets the state of something that has none/);
  });
});

describe('values', () => {
  it('keep what is the same twice, and what contains itself', () => {
    const list = [1];
    const t = tensor([1]);
    const loop: unknown[] = [];
    loop.push(loop);
    const [a, b, x, y, l] = read(writePython([list, list, t, t, loop]).bytes, { tensors: [t] }) as unknown[];
    expect(a).toBe(b);
    expect(x).toBe(t);
    expect(y).toBe(t);
    expect((l as unknown[])[0]).toBe(l);
  });

  it('of dicts have any keys, and those of objects mean nothing', () => {
    const dict = read(
      writePython(JSON.parse('{"__proto__": {"polluted": 1}, "constructor": 2, "toString": 3}')).bytes,
    ) as Map<unknown, unknown>;
    expect([...dict.keys()]).toEqual(['__proto__', 'constructor', 'toString']);
    expect(dict.get('__proto__')).toEqual(new Map([['polluted', 1]]));
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });

  it('of floats are numbers, and floats again when they are to be exact', () => {
    const content = writePython([new PyFloat(2), 0.5, -0, NaN]).bytes;
    expect(read(content)).toEqual([2, 0.5, -0, NaN]);
    expect(read(content, { exact: true })).toEqual([new PyFloat(2), 0.5, -0, NaN]);
  });

  it('of integers are numbers below 2^53, bigints from there', () => {
    const values = [2 ** 53 - 1, 2n ** 53n, -(2n ** 53n), -(2 ** 53) + 1, 2n ** 64n];
    expect(read(writePython(values).bytes)).toEqual(values);
    // However long they are written.
    expect(read(pickle(0x8a, 10, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0))).toBe(5);
    expect(read(pickle(0x8a, 0))).toBe(0);
    expect(read(pickle(0x8a, 1, 0xff))).toBe(-1);
  });

  it('of RRefs are what the context makes of them', () => {
    const fork = new RRefFork(1, { worker: 0, local: 5 }, { worker: 2, local: 6 }, 3, 'Tensor');
    const seen: RRefFork[] = [];
    const [value] = read(writePython([fork]).bytes, { rref: (f) => (seen.push(f), 'a handle') }) as unknown[];
    expect(value).toBe('a handle');
    expect(seen).toEqual([fork]);
    const receive = (...fields: (number | string)[]): Uint8Array =>
      pickle(
        global('builtins', 'getattr'),
        global('torch.distributed.rpc.internal', '_InternalRPCPickler'),
        0x8c,
        17,
        '_py_rref_receiver',
        0x86,
        'R',
        '(',
        ...fields,
        't',
        0x85,
        'R',
      );
    expect(() => read(receive('K', 1))).toThrow(/without its seven fields/);
    expect(() =>
      read(receive('J', 0xff, 0xff, 0xff, 0xff, 'K', 0, 'K', 0, 'K', 0, 'K', 0, 'K', 0, 0x8c, 1, 'T')),
    ).toThrow(/the worker of an RRef/);
    expect(() => read(receive('K', 0, 'K', 0, 'K', 0, 'K', 0, 'K', 0, 'K', 0, 'K', 0))).toThrow(/without a type/);
  });

  it('of RemoteModules are what the context makes of them, and are checked', () => {
    const fork = new RRefFork(1, { worker: 0, local: 5 }, { worker: 2, local: 6 }, 3, 'PyObject');
    const sent = new SerializedRemoteModule('w1', 'cuda:0', fork);
    const { bytes: pickled } = writePython([sent, sent]);
    const [whole, again] = read(pickled) as unknown[];
    expect(whole).toEqual(sent);
    expect(again).toBe(whole);
    const seen: SerializedRemoteModule[] = [];
    expect(read(pickled, { remoteModule: (module) => (seen.push(module), 'a module') })).toEqual([
      'a module',
      'a module',
    ]);
    expect(seen).toEqual([sent]);
    const fields: readonly unknown[] = fieldsOfRemoteModule(sent);
    const receive = (...changed: unknown[]): Uint8Array => {
      const args = fields.map((field, i) => (changed[i] === undefined ? field : changed[i]));
      return writePython(new PyInstance(receiver, args, { made: 'call' })).bytes;
    };
    expect(read(receive(7))).toMatchObject({ on: 7 });
    const method = fields[4] as PyName[];
    for (const [refused, text] of [
      [receive(''), /on '', which is no worker/],
      [receive('x'.repeat(128)), /which is no worker/],
      [receive(-1), /the rank of a RemoteModule/],
      [receive([]), /the rank of a RemoteModule/],
      [receive('w1', 5), /without a device/],
      [receive('w1', 'd'.repeat(33)), /without a device/],
      [receive('w1', 'cpu', 0), /whether devices are mapped/],
      [receive('w1', 'cpu', true, true), /an interface of TorchScript: send its module_rref instead/],
      [receive('w1', 'cpu', false, false, [method[1], method[0]]), /methods of its own/],
      [receive('w1', 'cpu', false, false, []), /methods of its own/],
      [receive('w1', 'cpu', false, false, [method[0], new PyName('os', 'system')]), /methods of its own/],
      [receive('w1', 'cpu', false, false, method, [1]), /without its seven fields/],
      [writePython(new PyInstance(receiver, [], { made: 'call' })).bytes, /a RemoteModule of 0 fields, not 6/],
    ] as const)
      expect(() => read(refused)).toThrow(text);
    // They are values, and nothing that a pickle could call.
    expect(() => read(pickle(global('_remote_module_non_scriptable', 'forward'), ')R'))).toThrow(/not to be called/);
  });

  it('of the standard library are checked', () => {
    const call = (module: string, name: string, ...args: (number | string)[]): Uint8Array =>
      pickle(global(module, name), '(', ...args, 't', 'R');
    expect(read(call('builtins', 'complex', 'K', 1, 'K', 2))).toEqual(new PyComplex(1, 2));
    expect(() => read(call('builtins', 'complex', ']', 'K', 2))).toThrow(/real part is no number/);
    expect(() => read(call('builtins', 'range', 'K', 0, 'K', 5, 'K', 0))).toThrow(/step of a range is not 0/);
    expect(() => read(call('builtins', 'bytearray', 'K', 200))).toThrow(/no bytes/);
    expect(() => read(call('collections', 'OrderedDict', ']', 'K', 1, 'a'))).toThrow(/no pair/);
    expect(() => read(call('collections', 'deque', ']', 'J', 0xff, 0xff, 0xff, 0xff))).toThrow(/length of a deque/);
    expect(() => read(pickle(global('collections', 'deque'), ')', 'K', 0, 0x86, 'R', 'K', 1, 'a'))).toThrow(
      /more to a deque than it holds/,
    );
    expect(() => read(call('datetime', 'datetime', 'C', 3, 'abc'))).toThrow(/a datetime of 3 bytes/);
    expect(() => read(call('datetime', 'datetime', 'C', 10, 7, 0xe4, 13, 1, 0, 0, 0, 0, 0, 0))).toThrow(/the month/);
    expect(() => read(call('datetime', 'timedelta', 'K', 0, 'K', 0, 'N'))).toThrow(/microseconds/);
    expect(() => read(call('torch', 'device', 0x8c, 9, '../../etc'))).toThrow(/no device/);
    expect(() => read(call('torch', 'Size', 'K', 1))).toThrow(/no list/);
    expect(() => read(call('torch.serialization', '_get_layout', 0x8c, 1, 'x'))).toThrow(/'x' is no layout/);
    expect(() => read(call('torch._utils', '_rebuild_parameter', 'K', 1, 0x88, 'N'))).toThrow(
      /a parameter of something/,
    );
    const opaque = new OpaqueTensor('complex128', tensor([0], { dtype: 'uint8' }).expand([16]));
    const { bytes: given, tensors } = writePython(opaque);
    const parameter = pickle(global('torch._utils', '_rebuild_parameter'), ...given.subarray(11, -1), 0x88, 'N\x87R');
    expect(() => read(parameter, { tensors })).toThrow(/a parameter of complex128, with which nothing here computes/);
    expect(() => read(call('numpy', 'dtype', 0x8c, 2, 'O8', 0x89, 0x88))).toThrow(/numpy's dtype 'O8' is not known/);
  });

  it('of numpy are tensors and numbers, in their order', () => {
    const array = (fortran: number): Uint8Array =>
      pickle(
        global('numpy._core.multiarray', '_reconstruct'),
        global('numpy', 'ndarray'),
        'K',
        0,
        0x85,
        'C',
        1,
        'b',
        0x87,
        'R',
        '(',
        'K',
        1,
        'K',
        2,
        'K',
        2,
        0x86,
        global('numpy', 'dtype'),
        0x8c,
        2,
        'i1',
        0x89,
        0x88,
        0x87,
        'R',
        '(',
        'K',
        3,
        0x8c,
        1,
        '|',
        'N',
        'N',
        'N',
        'J',
        0xff,
        0xff,
        0xff,
        0xff,
        'J',
        0xff,
        0xff,
        0xff,
        0xff,
        'K',
        0,
        't',
        'b',
        fortran,
        'C',
        4,
        1,
        2,
        3,
        4,
        't',
        'b',
      );
    expect((read(array(0x89)) as ReturnType<typeof tensor>).toArray()).toEqual([
      [1, 2],
      [3, 4],
    ]);
    expect((read(array(0x88)) as ReturnType<typeof tensor>).toArray()).toEqual([
      [1, 3],
      [2, 4],
    ]);
    const missing = array(0x89).with(-8, 3);
    expect(() => read(missing)).toThrow();
  });
});
