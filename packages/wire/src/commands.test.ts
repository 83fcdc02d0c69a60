import { type Tensor, tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import {
  type KnownCommand,
  decodeResponseValue,
  deserializeRequest,
  deserializeResponse,
  serializeRequest,
  serializeResponse,
} from './index.ts';
import { MessageType, isRequest } from './internal.ts';

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
  { kind: 'backward-autograd-req', contextId, messageId: 0n, retainGraph: true, gradients: [gradient, null, gradient] },
  { kind: 'cleanup-autograd-context-req', contextId },
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
  { kind: 'backward-autograd-resp' },
  { kind: 'cleanup-autograd-context-resp' },
  { kind: 'rref-backward-resp' },
  { kind: 'exception', message: 'größe' },
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

  it('cover every message type of torch that is a request or a response', () => {
    const covered = new Set([
      ...requests.map((command) => serializeRequest(command as never).type),
      ...responses.map((command) => serializeResponse(command as never).type),
      MessageType.FORWARD_AUTOGRAD_RESP,
      MessageType.RUN_WITH_PROFILING_RESP,
    ]);
    const torch = Object.values(MessageType).filter((type) => (type & 0xff) < 0x40 && type !== MessageType.UNKNOWN);
    expect([...covered].sort()).toEqual(torch.sort());
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
    expect(() => serializeRequest({ kind: 'python-ret', value: 1 })).toThrow("'python-ret' is not a request");
    expect(() => serializeResponse({ kind: 'rref-child-accept', forkId })).toThrow('is not a response');
    expect(() => serializeRequest({ kind: 'constructor' })).toThrow("no command is of kind 'constructor'");
  });

  it('bound how deeply messages are wrapped', () => {
    let command: Record<string, unknown> & { kind: string } = { kind: 'script-call', ...call };
    for (let i = 0; i < 9; i++) command = { kind: 'forward-autograd-req', ...wrap, wrapped: command };
    expect(() => serializeRequest(command)).toThrow('wrapped too deeply');
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
      'another number of gradients than tensors',
    );
  });
});
