/** @file Everybody that takes part in the suites about calls and tensors. */
import { createRequire } from 'node:module';
import type { Contestant } from '../measure.ts';
import type { SuiteContext } from '../suite.ts';
import { startBackwire, type BackwireContestant } from './backwire.ts';
import { startGrpc } from './grpc.ts';
import { startRaw } from './raw.ts';
import { startTorch } from './torch.ts';

/** The one that is compared with everybody: Unix sockets, everything on. */
export const OURS = 'Backwire';
export const OURS_TCP = 'Backwire, TCP';
/** With the cross-memory channel for large tensors. */
export const OURS_CMA = 'Backwire, cma';
export const RAW_UNIX = 'raw Unix socket';
export const RAW_TCP = 'raw TCP socket';
export const GRPC = 'gRPC (grpc-js)';
export const TORCH = 'PyTorch RPC';
export const COPY = 'one memory copy';

/** Runs `use` with all that this machine has, and ends them. */
export async function withContestants<T>(
  context: SuiteContext,
  use: (all: readonly Contestant[], ours: BackwireContestant) => Promise<T>,
): Promise<T> {
  const all: Contestant[] = [];
  try {
    const ours = await startBackwire(OURS, { transports: ['unix'] });
    all.push(ours);
    all.push(await startRaw('unix'));
    all.push(await startBackwire(OURS_TCP, { transports: ['tcp'] }));
    all.push(await startRaw('tcp'));
    if (hasKoffi()) all.push(await startBackwire(OURS_CMA, { transports: ['unix'], channels: ['cma'] }));
    else context.log('without the cross-memory channel: koffi is not installed, or this is not Linux');
    all.push(await startGrpc());
    const torch = await startTorch(context.torchPython);
    if (typeof torch === 'string') context.log(`without PyTorch RPC: ${torch}`);
    else all.push(torch);
    return await use(all, ours);
  } finally {
    for (const contestant of all.reverse()) await contestant.close();
  }
}

function hasKoffi(): boolean {
  try {
    createRequire(import.meta.url).resolve('koffi');
    return process.platform === 'linux';
  } catch {
    return false;
  }
}
