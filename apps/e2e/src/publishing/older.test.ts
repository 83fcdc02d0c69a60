/** @file Workers of today's packages in a group with workers of earlier ones, which were recorded: docs/versioning.md. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import { freePort } from '@backwire/testing';
import { expect, inject, test } from 'vitest';
import { root } from '../workspace.ts';
import { answerOf, here, start } from './programs.ts';

const { projects } = inject('rehearsal');
const PEERS = join(root, 'apps/e2e/fixtures/peers');
const recorded = readdirSync(PEERS).map((file) => file.replace(/\.mjs\.br$/, ''));

/** What a worker answers of each other one. */
const EVERYTHING = {
  value:
    '{"text":"é😀","numbers":[0,0,1.5,"NaN","-Infinity",9007199254740992],"big":"1180591620717411303424","nothing":[null,null],' +
    '"when":"2023-11-14T22:13:20.000Z","map":[["a",[1,2]]],"bytes":3,"large":20000}',
  negativeZero: true,
  small: [2, 4, 6],
  large: [1_000_000, 3_000_000],
  failure: [true, 'too far'],
  late: 'deadline-exceeded',
  items: [0, 1, 2],
  heard: true,
  sums: [1, 11, 10, true],
  gradients: [[2, 3], 0.3],
};

/** The recorded peer as a program in the project. */
function peer(version: string): string {
  const folder = join(projects.first, 'peers');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${version}.mjs`), brotliDecompressSync(readFileSync(join(PEERS, `${version}.mjs.br`))));
  return `peers/${version}.mjs`;
}

test('there is a recorded peer', () => {
  expect(recorded.length).toBeGreaterThan(0);
});

/** Who is first hosts the store. */
const orders = recorded.flatMap((version) => [
  { version, transports: 'unix', order: ['peer.mjs', peer(version), peer(version)] },
  { version, transports: 'tcp', order: [peer(version), 'peer.mjs'] },
]);

test.each(orders)('$version over $transports: $order', async ({ order, transports }) => {
  const port = String(await freePort());
  const env = { WORLD_SIZE: String(order.length), MASTER_ADDR: '127.0.0.1', MASTER_PORT: port, TRANSPORTS: transports };
  const names = order.map((_, rank) => `worker${rank}`);
  const answers = await Promise.all(
    order.map((file, rank) =>
      answerOf(start(here(projects.first), [file], { ...env, RANK: String(rank), NAME: `worker${rank}` })),
    ),
  );
  for (const [rank, answer] of answers.entries()) {
    const others = names.filter((_, other) => other !== rank);
    expect(answer, names[rank]).toEqual(Object.fromEntries(others.map((name) => [name, EVERYTHING])));
  }
});
