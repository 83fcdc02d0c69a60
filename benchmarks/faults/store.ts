/** @file The store of the soak with faults, where it stands apart from all workers: a process that can be killed. */
import { serveStore } from '@backwire/rpc/internal';
import { serveAsks } from '../processes.ts';

const server = await serveStore({
  port: Number(process.env['SOAK_STORE_PORT']),
  secret: process.env['BACKWIRE_SECRET'],
});
serveAsks({ close: () => server.close() });
