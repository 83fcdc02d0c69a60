/** @file A member that says untrue things of the passes of a context: the others keep serving, and remember no more for it. */
import { expect, it } from 'vitest';
import { rpcAsync, rpcFunction } from '@backwire/rpc';
import type { ExtensionHost } from '@backwire/rpc/internal';
import type { Tensor } from '@backwire/tensor';
import { encodeAbort, MessageType } from '@backwire/wire/internal';
import { backward, context } from '../src/index.ts';
import { AutogradSession } from '../src/extension.ts';
import { MAX_ORIGINS } from '../src/limits.ts';
import { memberKey } from '../src/protocol/ids.ts';
import { useAgents, leaf } from './agents.ts';

const double = rpcFunction('autograd-hostile/double', (x: Tensor) => x.mul(2));
const group = useAgents('autograd-hostile', 3);

function sessionAt(rank: number): AutogradSession {
  const session = (group.agents[rank] as ExtensionHost).session('dist-autograd');
  if (!(session instanceof AutogradSession)) throw new Error('no extension');
  return session;
}

it('aborts of passes that there never were take no memory, and keep no pass from running', async () => {
  await group.at(0, () =>
    context(async (id) => {
      const x = leaf([2], 1);
      const y = await rpcAsync('w1', double, [x]);
      const attacker = group.agents[2] as ExtensionHost;
      const there = sessionAt(1).find(id);
      const failure = { code: 'internal', name: 'RpcError', text: 'a lie' } as const;
      const invented = Array.from({ length: 4 * MAX_ORIGINS }, (_, i) => ({ worker: i, incarnation: i, n: 1 }));
      for (const pass of invented) {
        const payload = encodeAbort({ context: there.ref, pass, failure });
        attacker.control(attacker.resolve('w1'), MessageType.AUTOGRAD_ABORT, payload);
      }
      const last = memberKey(invented.at(-1)!);
      await expect.poll(() => there.finished.has(last), { timeout: 20_000 }).toBe(true);
      for (const rank of [0, 1]) expect(sessionAt(rank).find(id).finished.size).toBeLessThanOrEqual(MAX_ORIGINS);
      await backward(id, [y.sum()]);
    }),
  );
});
