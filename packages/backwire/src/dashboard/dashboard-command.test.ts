/** @file What `backwire dashboard` says of flags that it does not take, and of a port that is taken. */
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { dashboardCommand } from './dashboard-command.ts';
import { serveDashboard } from './server.ts';

it.each(['65536', '-1', '1.5', '1e3', '', 'http'])(
  'refuses --port=%s, and says which ports there are',
  async (port) => {
    await expect(dashboardCommand(['127.0.0.1:1', `--port=${port}`])).rejects.toMatchObject({
      name: 'UsageError',
      message: `--port takes a whole number from 0 to 65535, got '${port}'; 0 is any free port`,
    });
  },
);

it.each(['0', '-1', '86401', 'soon'])('refuses --interval=%s, and says which times it takes', async (interval) => {
  await expect(dashboardCommand(['127.0.0.1:1', `--interval=${interval}`])).rejects.toMatchObject({
    name: 'UsageError',
    message: `--interval takes a number of seconds above 0 and up to 86400, got '${interval}'`,
  });
});

it('says why a port cannot be had, and what to do', async () => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const { port } = other.address() as AddressInfo;
  try {
    // Nobody opens a page, so the group is never looked at.
    await expect(serveDashboard({ inspector: {} as never, port, intervalMs: 1_000 })).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringMatching(
        new RegExp(`^port ${port} cannot be had on 127.0.0.1: .*EADDRINUSE.*; without --port any free one is taken`),
      ) as string,
    });
  } finally {
    other.close();
  }
});
