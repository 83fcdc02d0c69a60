/** @file No schema for messages that nobody sends: each is written by generated code in an agent, or by hand and held against the schema. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Call } from './gen/backwire/wire/v1/message.ts';
import { Value } from './gen/backwire/wire/v1/value.ts';
import { decodeValue, deserializeRequest, serializeRequest } from './index.ts';

const root = join(import.meta.dirname, '..');
const packages = join(root, '..');
const schema = readdirSync(join(root, 'proto/backwire/wire/v1'))
  .map((file) => readFileSync(join(root, 'proto/backwire/wire/v1', file), 'utf8'))
  .join('\n');

/** Each message with the types of its fields. */
const MESSAGES = new Map(
  [...schema.matchAll(/^message (\w+) \{\n([\s\S]*?)^\}/gm)].map(([, name = '', body = '']) => [
    name,
    [...body.matchAll(/^\s+(?:repeated |optional |map<\w+, )?([A-Z]\w*)>? \w+ = \d+;/gm)].map(([, type = '']) => type),
  ]),
);

/** Sources of agents: not the generated code itself, not tests, and not the unions, which only follow what agents send. */
function sources(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !/test\.ts$|testdata|^gen\/|^command|-contents\.ts$/.test(file))
    .map((file) => readFileSync(join(folder, file), 'utf8'));
}
const code = ['wire', 'rpc', 'rref', 'dist-autograd', 'profiler'].flatMap((name) =>
  sources(join(packages, name, 'src')),
);

/** Written by hand, with the test that holds the bytes against the generated code. */
const BY_HAND: Readonly<Record<string, string>> = {
  TensorTable: 'wire/src/schema.test.ts > are protobuf tensor tables',
  HeaderTable: 'wire/src/schema.test.ts > are protobuf header tables',
  Value: 'wire/src/value/codec.test.ts > are what a generated protobuf reader understands',
  Call: 'wire/src/schema-use.test.ts > what a call is written as is a protobuf Call',
  RemoteReturn: 'rref/test/wire-format.test.ts > are messages of the schema, byte for byte',
  RRefFetch: 'rref/test/wire-format.test.ts > are messages of the schema, byte for byte',
};

describe('the schema', () => {
  const generated = [...MESSAGES.keys()].filter((name) =>
    code.some((text) => new RegExp(`(?:encodeProto|encoded|decoder)\\([^;]*?Proto\\.${name}\\b`).test(text)),
  );

  it('has messages that are sent, and no others', () => {
    const sent = new Set<string>();
    const visit = (name: string): void => {
      if (sent.has(name) || !MESSAGES.has(name)) return;
      sent.add(name);
      MESSAGES.get(name)?.forEach(visit);
    };
    [...generated, ...Object.keys(BY_HAND)].forEach(visit);
    expect([...MESSAGES.keys()].filter((name) => !sent.has(name))).toEqual([]);
    expect(MESSAGES.size).toBeGreaterThan(40);
    expect(generated).toContain('Handshake');
    expect(generated).not.toContain('Value');
  });

  it.each(Object.entries(BY_HAND))('%s is held against it by %s', (name, where) => {
    expect(MESSAGES.has(name)).toBe(true);
    const [file = '', title = ''] = where.split(' > ');
    const text = readFileSync(join(packages, file), 'utf8');
    expect(text).toContain(title);
    expect(text).toMatch(new RegExp(`\\b${name}\\b`));
  });
});

it('what a call is written as is a protobuf Call', () => {
  const command = { kind: 'python-call', function: 'größe/f', args: [1, 'x', { a: [2] }] };
  const message = serializeRequest(command);
  const call = Call.decode(message.payload);
  expect(call.function).toBe('größe/f');
  expect(decodeValue(Value.encode(call.arguments ?? Value.decode(new Uint8Array(0))).finish(), [])).toEqual(
    command.args,
  );
  const again = { ...message, payload: Call.encode(call).finish() };
  expect(deserializeRequest(again)).toEqual(command);
});
