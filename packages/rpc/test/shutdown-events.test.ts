/** @file What a worker is told while it leaves in good order: nothing that sounds as if it had been put out. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { createAgent } from '../src/index.ts';

it.each([0, 3])(
  'no worker of a store that is slow to tell is fenced by leaving (a group of %i)',
  async (worldSize) => {
    const folder = mkdtempSync(join(tmpdir(), 'backwire-events-'));
    try {
      for (let round = 0; round < 3; round++) {
        const store = `file://${join(folder, `${round}`)}`;
        const size = worldSize === 0 ? {} : { worldSize };
        const agents = await Promise.all(
          [0, 1, 2].map((rank) => createAgent({ name: `w${rank}`, rank, ...size, store, initTimeoutMs: 20_000 })),
        );
        const fenced: string[] = [];
        for (const agent of agents) agent.on('fenced', () => fenced.push(agent.name));
        await Promise.all(agents.map((agent) => agent.shutdown({ timeoutMs: 20_000 })));
        expect(fenced).toEqual([]);
      }
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
  60_000,
);
