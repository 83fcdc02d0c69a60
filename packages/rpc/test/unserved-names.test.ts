/** @file A member that calls what it should not: nothing of it runs, and it is told why. */
import { describe, expect, it } from 'vitest';
import { FrameFlag, FrameKind, MessageType } from '@backwire/wire/internal';
import { rpcName } from '@backwire/tensor';
import { encodeValue } from '@backwire/wire';
import { rpcClass, rpcFunction } from '../src/index.ts';
import { until } from './cluster.ts';
import { echo, openLink, writeMessage } from './impostor.ts';

const ran: string[] = [];
rpcFunction('hostile/secret', () => void ran.push('function'));
rpcFunction('hostile/secret-stream', function* () {
  ran.push('generator');
  yield 1;
});
class Secret {
  static readonly [rpcName] = 'hostile/Secret';
  constructor() {
    ran.push('constructor');
  }
  static open(): void {
    ran.push('static method');
  }
}
rpcClass(Secret, { methods: [], statics: ['open'] });

describe('a member that names what it should not', () => {
  const registered = ['hostile/secret', 'hostile/secret-stream', 'hostile/Secret', 'hostile/Secret.open'];
  const lent = ['aten::outer', 'aten::add', 'nn.Linear', 'optim.SGD'];
  const unknown = [
    '__proto__',
    'constructor',
    'toString',
    'hostile',
    'nn.',
    'nn.Module',
    'nn.__proto__',
    'aten::',
    'a\0b',
  ];
  const { ONEWAY, STREAM, IDEMPOTENT } = FrameFlag;
  // A stream that wants no answer costs the link.
  const flags = [0, ONEWAY, STREAM, IDEMPOTENT, ONEWAY | IDEMPOTENT, STREAM | IDEMPOTENT];
  const types = [MessageType.PYTHON_CALL, MessageType.SCRIPT_CALL];

  it('runs nothing, whatever the flags and the type, and is told why', async () => {
    ran.length = 0;
    const { talk, talks } = await openLink({ serve: [echo] });
    const { bytes } = encodeValue([]);
    const expected = new Map<number, string>();
    let seq = 0;
    for (const name of [...registered, ...lent, ...unknown]) {
      const fn = expected.size + 1;
      for (const flag of flags) {
        for (const messageType of types) {
          seq++;
          const fields = { kind: FrameKind.CALL, flags: flag, messageType, seq, callId: seq, fn };
          talk.write((writer) => writeMessage(writer, bytes, fields, name));
          if ((flag & ONEWAY) === 0) expected.set(seq, unknown.includes(name) ? 'not-found' : 'permission-denied');
        }
      }
    }
    await until(() => talk.answers.size === expected.size, 'every call was answered');
    expect(talk.answers).toEqual(expected);
    expect(ran).toEqual([]);
    // The link has lived through all of it, and serves what is served.
    const last = { kind: FrameKind.CALL, seq: seq + 1, callId: 9_999, fn: 999 };
    talk.write((writer) => writeMessage(writer, encodeValue(['x']).bytes, last, 'hostile/echo'));
    await until(() => talk.answers.get(9_999) === 'result', 'the echo came back');
    expect(talks.length).toBe(1);
  });
});
