/** @file docs/security.md lists every name and message of the library that peers can use, and says truly which are always there. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { definitions, type Definition, type ExtensionHost } from '@backwire/rpc/internal';
import { MessageType, messageTypeName } from '@backwire/wire/internal';
import * as backwire from './index.ts';

const document = readFileSync(join(import.meta.dirname, '../../../docs/security.md'), 'utf8');

/** The cells of the table behind a marker, without its head. */
function table(marker: string): string[][] {
  const [, rest = ''] = document.split(`<!-- ${marker} -->`);
  const lines = rest.trimStart().split('\n');
  const end = lines.findIndex((line) => !line.startsWith('|'));
  return lines.slice(2, end).map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

const quoted = (cell: string | undefined): string[] =>
  [...(cell ?? '').matchAll(/`([^`]+)`/g)].map(([, name]) => name!);

/** When a definition of the library is served, in the words of the table. */
function when({ origin, runs }: Definition): string {
  if (origin !== 'system') return 'like a class of the program';
  return runs === undefined ? 'always' : `where some ${runs.text} is`;
}

// This file defines nothing of its own: all that has a name is the library's.
const own = definitions().filter(({ origin }) => origin !== 'builtin');
const rows = table('names');

let agents: backwire.RpcAgent[] = [];
beforeAll(async () => {
  agents = await Promise.all(
    ['asks', 'serves-nothing'].map((name, rank) =>
      backwire.createAgent({
        name,
        rank,
        worldSize: 2,
        store: 'memory://listed',
        ...(rank === 1 ? { serve: [] } : {}),
      }),
    ),
  );
});
afterAll(() => Promise.all(agents.map((agent) => agent.shutdown({ graceful: false }))));

it('names every definition of the library, and no other', () => {
  expect(rows.map(([name]) => quoted(name)[0])).toEqual(expect.arrayContaining(own.map(({ name }) => name)));
  expect(rows).toHaveLength(own.length);
});

it('says of each when it is served', () => {
  const said = Object.fromEntries(rows.map(([name, , , served]) => [quoted(name)[0], served]));
  expect(said).toEqual(Object.fromEntries(own.map((definition) => [definition.name, when(definition)])));
});

it.each(own.map(({ name }) => name))(
  '%s is there without anything served if and only if the table says so',
  async (name) => {
    const always = rows.find(([cell]) => quoted(cell)[0] === name)?.[3] === 'always';
    const call = agents[0]!.run(() => backwire.rpcAsync('serves-nothing', backwire.remoteFunction(name), [[]]));
    const code = await call.then(
      () => 'it answered',
      (error: unknown) => backwire.rpcInfo(error)?.code,
    );
    expect(code === 'permission-denied').toBe(!always);
    expect(code).not.toBe('not-found');
  },
);

it('names every message that an agent with all extensions takes, and no other', () => {
  const host = agents[0] as ExtensionHost;
  const taken = new Set<number>([MessageType.PYTHON_CALL, MessageType.SCRIPT_CALL, MessageType.REPORT]);
  for (const name of ['rref', 'dist-autograd', 'profiling']) {
    const session = host.session(name);
    expect(session).toBeDefined();
    for (const type of session?.messages?.keys() ?? []) taken.add(type);
    for (const type of session?.controls?.keys() ?? []) taken.add(type);
    for (const type of session?.wraps ?? []) taken.add(type);
  }
  const named = table('messages').flatMap(([messages]) => quoted(messages));
  expect(named.toSorted()).toEqual([...taken].map(messageTypeName).toSorted());
});
