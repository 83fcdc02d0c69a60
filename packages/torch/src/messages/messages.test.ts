/** @file Messages: every kind is read as it was written; bodies that torch would not send are refused. */
import { tensor } from '@backwire/tensor';
import { MessageType } from '@backwire/wire/internal';
import { describe, expect, it } from 'vitest';
import { writePython } from '../pickle/python-writer.ts';
import { scriptList } from '../values/containers.ts';
import { readRequest, readResponse, writeCommand } from './codec.ts';
import type { Body, TorchCommand, TorchEvent } from './commands.ts';
import { operatorOf } from './calls.ts';
import { tupleBody } from './fields.ts';

const context = { rref: (fork: unknown) => fork };
const t = tensor([1, 2]);
const u = tensor([3]);
const rref = { worker: 1, local: 2 ** 40 };
const fork = { worker: 0x7fff, local: 0 };
const schema = 'aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor';
const pickled = writePython(['x', t]);
const inner = { type: MessageType.SCRIPT_RET, body: Uint8Array.of(1, 2, 3), tensors: [t] };
const event: TorchEvent = {
  kind: 1,
  name: 'aten::mul',
  thread: 1,
  handle: 2,
  node: 0,
  cpuBytes: -5,
  cpuNs: 2n ** 60n,
  hasCuda: false,
  cudaBytes: 0,
  cudaDevice: -1,
  cudaUs: -1,
  shapes: [[2, 3], [], [1]],
};

const commands: TorchCommand[] = [
  { kind: 'script-call', callee: { schema }, args: [t, u, 1] },
  {
    kind: 'script-call',
    callee: { schema: 'aten::zeros(SymInt[] size) -> Tensor' },
    args: [scriptList('int', [2, 3])],
  },
  { kind: 'script-call', callee: { function: '__torch__.app.f', isAsync: true }, args: ['a', null, t, t] },
  { kind: 'script-call', callee: { function: '__torch__.app.f', isAsync: false }, args: [] },
  { kind: 'script-remote-call', callee: { schema }, args: [t, u, 1], rref, fork },
  { kind: 'script-remote-call', callee: { function: '__torch__.f', isAsync: true }, args: [0.5], rref, fork },
  { kind: 'python-call', isAsync: true, pickled: pickled.bytes, tensors: pickled.tensors },
  { kind: 'python-call', isAsync: false, pickled: pickled.bytes, tensors: pickled.tensors },
  { kind: 'python-remote-call', isAsync: true, pickled: pickled.bytes, tensors: [t, u], rref, fork },
  { kind: 'python-remote-call', isAsync: false, pickled: pickled.bytes, tensors: [], rref, fork },
  { kind: 'script-rref-fetch-call', rref, from: 3 },
  { kind: 'python-rref-fetch-call', rref, from: 3 },
  { kind: 'rref-user-delete', rref, fork },
  { kind: 'rref-fork-request', rref, fork },
  { kind: 'rref-child-accept', fork },
  {
    kind: 'forward-autograd-req',
    inner,
    context: 5n << 48n,
    message: (5n << 48n) + 1n,
    from: 5,
    devices: new Map([['cuda:0', 'cpu']]),
  },
  { kind: 'forward-autograd-resp', inner, context: 0n, message: 7n, from: 0, devices: new Map() },
  { kind: 'backward-autograd-req', gradients: [t, u], context: 1n, message: 2n, retainGraph: true },
  { kind: 'backward-autograd-req', gradients: [], context: 1n, message: 2n, retainGraph: false },
  { kind: 'cleanup-autograd-context-req', context: 0x7fff_ffff_ffff_ffffn },
  { kind: 'rref-backward-req', rref, context: 3n, retainGraph: false },
  { kind: 'run-with-profiling-req', inner, profile: rref, state: 1, shapes: true, memory: false },
  { kind: 'run-with-profiling-resp', inner, profile: rref, events: [event, { ...event, kind: 2, hasCuda: true }] },
  { kind: 'run-with-profiling-resp', inner, profile: rref, events: [] },
  { kind: 'script-ret', value: scriptList('Any', [1, 'a', t]) },
  { kind: 'script-rref-fetch-ret', value: t },
  { kind: 'python-ret', pickled: pickled.bytes, tensors: pickled.tensors },
  { kind: 'python-rref-fetch-ret', pickled: pickled.bytes, tensors: [t, u] },
  { kind: 'remote-ret', rref, fork },
  { kind: 'rref-ack' },
  { kind: 'backward-autograd-resp' },
  { kind: 'cleanup-autograd-context-resp' },
  { kind: 'rref-backward-resp' },
  { kind: 'exception', text: 'Error on Node 1: é 😀' },
];

const read = (body: Body): TorchCommand =>
  (body.type & 0x200) === 0 ? readRequest(body, context) : readResponse(body, context);

describe('commands', () => {
  it.each(commands.map((command) => [command.kind, command] as const))(
    '%s: are read as they were written',
    (_, command) => {
      const body = writeCommand(command);
      expect(read(body)).toEqual(command);
    },
  );

  it('are of all types that torch has', () => {
    const types = new Set(commands.map((command) => writeCommand(command).type));
    const torchs = Object.values(MessageType).filter((type) => (type & 0xff) < 0x40 && type !== MessageType.UNKNOWN);
    expect([...types].sort()).toEqual(torchs.sort());
  });

  it('name the operator that their schema is of', () => {
    expect(operatorOf(schema)).toBe('torch.ops.aten.add');
    expect(operatorOf('aten::_softmax(Tensor self) -> Tensor')).toBe('torch.ops.aten._softmax');
    for (const bad of ['add(Tensor self)', 'aten::add', 'prim::add(Tensor self)', 'aten::a b()'])
      expect(() => operatorOf(bad)).toThrow(/no schema/);
  });
});

describe('bodies', () => {
  const T = MessageType;
  const body = (type: number, values: readonly unknown[], tensors?: Body['tensors']): Body => {
    const written = tupleBody(type, values);
    return tensors === undefined ? written : { ...written, tensors };
  };
  const raw = (type: number, ...bytes: number[]): Body => ({ type, body: Uint8Array.from(bytes), tensors: [] });
  const call = [schema, 'torch.ops.aten.add'];
  const ids = [
    [1, 2],
    [3, 4],
  ].map((pair) => scriptList('int', pair));
  const cases: [string, Body, RegExp][] = [
    ['a type that is an answer', raw(0x0fe), /a request of type 0xfe/],
    ['a type of ours', raw(0x141), /a request of type AUTOGRAD_DISCOVER_REQ/],
    ['an answer of ours', raw(0x242), /a response of type AUTOGRAD_DISCOVER_RESP/],
    ['a call of nothing', body(T.SCRIPT_CALL, [1]), /without its 2 parts/],
    [
      'a call without a schema',
      body(T.SCRIPT_CALL, [t, 1, 'torch.ops.aten.add']),
      /schema of what is called is no text/,
    ],
    [
      'a call by another operator’s schema',
      body(T.SCRIPT_CALL, [t, schema, 'torch.ops.aten.mul']),
      /the schema of 'torch.ops.aten.mul' is another operator's/,
    ],
    ['a call of a Python name', body(T.SCRIPT_CALL, [t, false, 'os.system']), /'os.system' is no TorchScript function/],
    ['a call without the word whether it is async', body(T.SCRIPT_CALL, [t, 1, '__torch__.f']), /async is no bool/],
    ['a remote call without ids', body(T.SCRIPT_REMOTE_CALL, [...call, 1, 2]), /id of an RRef is no id/],
    ['a remote call with lists for ids', body(T.SCRIPT_REMOTE_CALL, [...call, ...ids]), /id of an RRef is no id/],
    ['a Python call of nothing', raw(T.PYTHON_CALL), /whether it is async/],
    ['a Python call with another flag', raw(T.PYTHON_CALL, 2), /whether it is async/],
    [
      'a Python remote call whose tensors are others',
      body(T.PYTHON_REMOTE_CALL, [t, Uint8Array.of(0x80), ...ids, true], [t, u]),
      /whose tensors are not those/,
    ],
    [
      'a Python remote call with a number for a pickle',
      body(T.PYTHON_REMOTE_CALL, [7, ...ids, true]),
      /pickled function or value is none/,
    ],
    ['a fetch without a worker', body(T.SCRIPT_RREF_FETCH_CALL, [1]), /a fetch without its 2 parts/],
    ['an acknowledgement with something in it', raw(T.RREF_ACK, 1), /an acknowledgement of 1 bytes/],
    ['gradients that are none', body(T.BACKWARD_AUTOGRAD_REQ, [1, 1, 1, true]), /gradient that is no tensor/],
    ['a context that is no integer', body(T.BACKWARD_AUTOGRAD_REQ, ['c', 1, true]), /id of a context is no integer/],
    ['a wrap that is cut off', raw(T.FORWARD_AUTOGRAD_REQ, 0, 0), /shorter than its length field/],
    ['a wrap longer than itself', raw(T.FORWARD_AUTOGRAD_REQ, 0, 0, 0, 0, 0, 0, 0, 9), /longer than the payload/],
    ['a profile of nothing', raw(T.RUN_WITH_PROFILING_REQ, 0, 0, 0, 0, 0, 0, 0, 0), /a pickle is cut off/],
  ];
  it.each(cases)('%s is refused', (_, content, message) => {
    expect(() => read(content)).toThrow(message);
    expect(() => read(content)).toThrow(/^decode-error/);
  });

  it('a wrap around an unknown type is refused', () => {
    const wrap = writeCommand({
      kind: 'forward-autograd-req',
      inner: { ...inner, type: 0x1fe },
      context: 1n,
      message: 1n,
      from: 0,
      devices: new Map(),
    });
    expect(() => read(wrap)).toThrow(/around one of an unknown type/);
  });

  it('an error text that is no UTF-8 is read all the same', () => {
    expect(read(raw(T.EXCEPTION, 0x61, 0xff))).toEqual({ kind: 'exception', text: 'a\ufffd' });
  });
});

it.each([
  ['nothing', new Uint8Array(0)],
  ['text', Uint8Array.of(0x4e, 0x2e)],
])('keeps the ids of a creation whose call is no pickle, so that what waits for it hears why: %s', (_, none) => {
  const body = writeCommand({ kind: 'python-remote-call', isAsync: false, pickled: none, tensors: [], rref, fork });
  expect(readRequest({ ...body, tensors: [] }, context)).toMatchObject({ rref, fork, pickled: none });
});
