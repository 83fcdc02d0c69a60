import { type Tensor, tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import {
  type Command,
  type KnownCommand,
  TaggedValue,
  decodeValue,
  encodeValue,
  decodeResponseValue,
  deserializeRequest,
  deserializeResponse,
  serializeRequest,
  serializeResponse,
} from '../index.ts';
import { MessageType, isRequest } from '../internal.ts';
import { readWrappedPayload, writeWrappedPayload } from '../torch/wrapped.ts';

const rrefId = { createdOn: 1, localId: 7n, incarnation: 3 };
const forkId = { createdOn: 2, localId: 2n ** 53n - 1n, incarnation: 0 };
const gradient = tensor([1, 2]);
const call = { function: 'ps/push', args: [gradient, { lr: 0.1 }] };
const contextId = (5n << 48n) | 77n;
const wrap = { contextId, messageId: contextId + 1n, fromWorkerId: 5, deviceMap: { cpu: 'gpu:0' } };
const event = {
  name: 'aten::mul',
  node: 1,
  isRemote: true,
  startUs: 1.5,
  durationUs: 2,
  shapes: [[2, 3], []],
  bytes: -16,
};

const functions = [
  { worker: 0, messageId: 0n },
  { worker: 0xffff, messageId: 2n ** 48n - 1n },
];
const pass = { contextId, incarnation: 6, pass: { worker: 4, incarnation: 5, number: 6 } };
const flags = { retainGraph: true, fast: true, failed: [1, 2], plan: functions };
const failure = { code: 'peer-died', name: 'RpcError', message: 'größe', peer: { id: 0, name: 'w0' } };

const requests: KnownCommand[] = [
  { kind: 'script-call', ...call },
  { kind: 'python-call', ...call },
  { kind: 'script-remote-call', ...call, rrefId, forkId },
  { kind: 'python-remote-call', ...call, rrefId, forkId },
  { kind: 'script-rref-fetch-call', rrefId, fromWorkerId: 65_535 },
  { kind: 'python-rref-fetch-call', rrefId, fromWorkerId: 0 },
  { kind: 'rref-user-delete', rrefId, forkId },
  { kind: 'rref-fork-request', rrefId, forkId },
  { kind: 'rref-child-accept', forkId },
  { kind: 'forward-autograd-req', ...wrap, wrapped: { kind: 'python-call', ...call } },
  { kind: 'forward-autograd-req', contextId, messageId: 8n, wrapped: { kind: 'python-call', ...call } },
  {
    kind: 'forward-autograd-req',
    contextId,
    incarnation: 0xffff_ffff,
    messageId: 2n ** 48n - 1n,
    oldestLive: 76,
    graph: true,
    path: [0, 2 ** 40],
    reach: functions,
    failedPasses: [
      { worker: 1, incarnation: 7, number: 3 },
      { worker: 65_535, incarnation: 1, number: 2 ** 50 },
    ],
    wrapped: { kind: 'python-rref-fetch-call', rrefId, fromWorkerId: 1 },
  },
  { kind: 'forward-autograd-req', contextId, messageId: 0n, reach: [], wrapped: { kind: 'script-call', ...call } },
  { kind: 'backward-autograd-req', contextId, messageId: 0n, retainGraph: true, gradients: [gradient, null, gradient] },
  { kind: 'backward-autograd-req', ...pass, messageId: contextId, retainGraph: false, gradients: [] },
  { kind: 'backward-autograd-req', ...pass, ...flags, messageId: 3n, gradients: [null] },
  { kind: 'autograd-discover-req', ...pass, ...flags, messageIds: [0n, 2n ** 48n - 1n] },
  { kind: 'autograd-abort', ...pass, failure },
  { kind: 'autograd-abort', contextId, failure: { code: '', name: 'RangeError', message: '' } },
  { kind: 'cleanup-autograd-context-req', contextId },
  { kind: 'cleanup-autograd-context-req', contextId, incarnation: 2, oldestLive: 70 },
  { kind: 'autograd-adopt-req', contextId, incarnation: 2 },
  { kind: 'rref-user-delete', forkIds: [] },
  { kind: 'rref-user-delete', forkIds: [forkId] },
  { kind: 'rref-user-delete', forkIds: [forkId, rrefId] },
  { kind: 'rref-fork-request', rrefId, forkId, parent: { worker: 3, incarnation: 4 } },
  { kind: 'rref-create-failed', rrefId, forkId, code: 'cancelled', message: 'größe' },
  { kind: 'fence', epoch: 0 },
  { kind: 'fence', epoch: 3, dead: [{ worker: 3, incarnation: 4 }], decisions: 2 },
  { kind: 'report', epoch: 0 },
  {
    kind: 'report',
    epoch: 7,
    store: true,
    hears: [{ worker: 3, incarnation: 4 }],
    gone: [{ worker: 0, incarnation: 1 }],
    asks: true,
    view: Uint8Array.of(1, 2),
  },
  { kind: 'fence-ack', epoch: 2 ** 40 },
  { kind: 'fence-done', epoch: 0, dead: [{ worker: 3, incarnation: 4 }] },
  { kind: 'drain', lastSeq: 9, graceMs: 10, reason: 'leaving' },
  { kind: 'bye', reason: '' },
  {
    kind: 'run-with-profiling-req',
    profilingId: rrefId,
    recordShapes: true,
    profileMemory: false,
    wrapped: { kind: 'forward-autograd-req', ...wrap, wrapped: { kind: 'script-call', ...call } },
  },
  { kind: 'rref-backward-req', rrefId, contextId, retainGraph: false },
];
const responses: KnownCommand[] = [
  { kind: 'script-ret', value: [gradient, 'x'] },
  { kind: 'python-ret', value: null },
  { kind: 'script-rref-fetch-ret', value: 5 },
  { kind: 'python-rref-fetch-ret', value: gradient },
  { kind: 'remote-ret', rrefId, forkId },
  { kind: 'rref-ack' },
  { kind: 'rref-ack', forkId },
  { kind: 'rref-ack', forkId, refused: { code: 'rref-released', message: 'x' } },
  { kind: 'backward-autograd-resp' },
  { kind: 'backward-autograd-resp', failure },
  {
    kind: 'backward-autograd-resp',
    returned: [
      { messageId: 4n, gradients: [gradient, null] },
      { messageId: 5n, gradients: [gradient] },
    ],
  },
  { kind: 'autograd-discover-resp' },
  { kind: 'autograd-discover-resp', failure },
  { kind: 'cleanup-autograd-context-resp' },
  { kind: 'rref-backward-resp' },
  { kind: 'exception', message: 'größe' },
  {
    kind: 'exception',
    message: '',
    code: 'unavailable',
    name: 'RangeError',
    stack: 'at …',
    executed: 'maybe',
    retryable: true,
    peerName: 'w1',
    peer: { worker: 1, incarnation: 2 },
    details: Uint8Array.of(1, 2),
    properties: Uint8Array.of(3, 4),
    cause: { message: 'deeper', executed: 'no' },
  },
];

describe('commands', () => {
  it.each(requests.map((command) => [command.kind, command] as const))('%s travels', (_kind, command) => {
    const message = serializeRequest(command as never);
    expect(isRequest(message.type)).toBe(true);
    expect(deserializeRequest(message)).toEqual(command);
  });

  it.each(responses.map((command) => [command.kind, command] as const))('%s travels', (_kind, command) => {
    const message = serializeResponse(command as never);
    expect(deserializeResponse(message)).toEqual({ command, wrappedType: message.type, wraps: [] });
  });

  it('cover every message type', () => {
    const covered = new Set([
      ...requests.map((command) => serializeRequest(command as never).type),
      ...responses.map((command) => serializeResponse(command as never).type),
      MessageType.FORWARD_AUTOGRAD_RESP,
      MessageType.RUN_WITH_PROFILING_RESP,
    ]);
    const all = Object.values(MessageType).filter((type) => type !== MessageType.UNKNOWN);
    expect([...covered].sort()).toEqual(all.sort());
  });

  it('are unwrapped when they are answers, and keep what they were wrapped in', () => {
    const answer = { kind: 'python-ret', value: [1, gradient] };
    const autograd = { kind: 'forward-autograd-resp', ...wrap, wrapped: answer };
    const profiled = { kind: 'run-with-profiling-resp', profilingId: rrefId, events: [event], wrapped: autograd };
    const message = serializeResponse(profiled);
    expect(message.tensors).toEqual([gradient]);
    const { command, wrappedType, wraps } = deserializeResponse(message);
    expect(command).toEqual(answer);
    expect(wrappedType).toBe(MessageType.PYTHON_RET);
    expect(wraps.map((w) => w.kind)).toEqual(['run-with-profiling-resp', 'forward-autograd-resp']);
    expect(wraps[0]?.['events']).toEqual([event]);
    expect(wraps[1]).toMatchObject(wrap);
    expect(decodeResponseValue(message)).toEqual([1, gradient]);
  });

  it('give the value of an answer, or throw what it says', () => {
    expect(decodeResponseValue(serializeResponse({ kind: 'script-ret', value: 4 }))).toBe(4);
    expect(() => decodeResponseValue(serializeResponse({ kind: 'exception', message: 'boom' }))).toThrow('boom');
    expect(() => decodeResponseValue(serializeResponse({ kind: 'rref-ack' }))).toThrow(
      'Response type RREF_ACK has no value',
    );
  });

  it('refuse what they do not know', () => {
    const message = { type: 0x1fe, id: 0n, payload: new Uint8Array(0), tensors: [] };
    expect(() => deserializeRequest(message)).toThrow('Request type 0x1fe not supported.');
    expect(() => deserializeResponse({ ...message, type: 0x2fe })).toThrow('Response type 0x2fe not supported.');
    expect(() => deserializeRequest({ ...message, type: MessageType.PYTHON_RET })).toThrow('not supported');
    expect(() => serializeRequest({ kind: 'python-ret', value: 1 })).toThrow(
      "'python-ret' is not a request: use serializeResponse()",
    );
    expect(() => serializeResponse({ kind: 'rref-child-accept', forkId })).toThrow(
      "'rref-child-accept' is not a response: use serializeRequest()",
    );
    expect(() => serializeRequest({ kind: 'constructor' })).toThrow("no command is of kind 'constructor'");
  });

  it('keep values that only an extension or a class elsewhere understands, as they are', () => {
    const handle = new TaggedValue('extension', 'rref', [Uint8Array.of(1, 2), 'Tensor']);
    const point = new TaggedValue('type', 'Point of nobody', { x: 1, t: gradient });
    const message = serializeRequest({ kind: 'python-call', function: 'f', args: [handle, [point]] });
    const command = deserializeRequest(message);
    expect(command['args']).toEqual([handle, [point]]);
    expect(serializeRequest(command)).toEqual(message);
    expect(() => encodeValue(handle)).toThrow(TypeError); // an agent sends none
    expect(() => decodeValue(serializeResponse({ kind: 'python-ret', value: handle }).payload, [])).toThrow(/rref/);
  });

  it.each([
    { createdOn: 1.5, localId: 1n },
    { createdOn: -1, localId: 1n },
    { createdOn: 0x1_0000, localId: 1n },
    { createdOn: NaN, localId: 1n },
    { createdOn: 1, localId: -1n },
    { createdOn: 1, localId: 2n ** 53n },
    { createdOn: 1, localId: 0.5 as never },
    { createdOn: 1, localId: 1n, incarnation: 0.5 },
  ])('refuse ids that are none: %o', (id) => {
    for (const kind of ['python-rref-fetch-call', 'rref-backward-req', 'rref-child-accept'])
      expect(refusal({ kind, rrefId: id, forkId: id, fromWorkerId: 0, contextId, retainGraph: false })).toEqual([
        'invalid-argument',
        expect.stringMatching(/^createdOn .* are no id \[invalid-argument\]$/),
      ]);
  });

  it.each([
    [null, 'a command is an object with its kind and fields, got null'],
    [5, 'a command is an object with its kind and fields, got 5'],
    [{ kind: 'python-call', args: [] }, 'function is the name of a definition, got undefined'],
    [{ kind: 'python-call', function: 5, args: [] }, 'function is the name of a definition, got 5'],
    [{ kind: 'script-call', function: 'f' }, 'args is a list, got undefined'],
    [{ kind: 'script-call', function: 'f', args: 5 }, 'args is a list, got 5'],
    [{ kind: 'cleanup-autograd-context-req', contextId: 1.5 }, 'contextId is a bigint, got 1.5'],
    [{ kind: 'cleanup-autograd-context-req' }, 'contextId is a bigint, got undefined'],
    [
      { kind: 'forward-autograd-req', ...wrap, wrapped: undefined },
      'a command is an object with its kind and fields, got undefined',
    ],
  ])('refuse fields that are not what their types say: %o', (command, words) => {
    expect(refusal(command)).toEqual(['invalid-argument', `${words} [invalid-argument]`]);
  });

  it('bound how deeply messages are wrapped', () => {
    let command: Record<string, unknown> & { kind: string } = { kind: 'script-call', ...call };
    for (let i = 0; i < 8; i++) command = { kind: 'forward-autograd-req', ...wrap, wrapped: command };
    const deepest = serializeRequest(command);
    expect(serializeRequest(deserializeRequest(deepest))).toEqual(deepest);
    const tooDeep = { kind: 'forward-autograd-req', ...wrap, wrapped: command };
    expect(() => serializeRequest(tooDeep)).toThrow('commands are wrapped too deeply: at most 8 times');
    // What no program here writes: the metadata of a wrap of a wrap, behind the deepest message there may be.
    const twice = serializeRequest({ ...tooDeep, wrapped: { ...tooDeep, wrapped: { kind: 'script-call', ...call } } });
    const { extra } = readWrappedPayload(twice.payload);
    const forged = { ...deepest, payload: writeWrappedPayload(deepest.payload, extra) };
    expect(() => deserializeRequest(forged)).toThrow('a message is wrapped too deeply: at most 8 times');
  });

  it('check that gradients and tensors agree', () => {
    const message = serializeRequest({
      kind: 'backward-autograd-req',
      contextId,
      messageId: 0n,
      retainGraph: true,
      gradients: [gradient],
    });
    expect(() => deserializeRequest({ ...message, tensors: [] as Tensor[] })).toThrow(
      'gradients do not match their tensors',
    );
  });
});

/** The code and the text with which a command is not written. */
function refusal(command: unknown): unknown[] {
  try {
    return [serializeRequest(command as Command)];
  } catch (error) {
    return error instanceof TypeError ? [(error as { code?: string }).code, error.message] : ['another class', error];
  }
}
