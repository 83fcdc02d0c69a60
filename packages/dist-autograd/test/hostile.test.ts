/** @file A member that says untrue things of the passes of a context: the others keep serving, and remember no more for it. */
import { expect, it } from 'vitest';
import { rpcAsync, rpcFunction } from '@backwire/rpc';
import type { ExtensionHost } from '@backwire/rpc/internal';
import { tensor, type Tensor } from '@backwire/tensor';
import { decodeOutcome, encodeAbort, encodeBackward, encodeDiscover, MessageType } from '@backwire/wire/internal';
import { backward, context, getGradients } from '../src/index.ts';
import { AutogradSession } from '../src/extension.ts';
import { MAX_ENDED, MAX_ORIGINS } from '../src/limits.ts';
import { type ContextRef, type PassId } from '../src/protocol/ids.ts';
import type { Failure } from '../src/protocol/pass-types.ts';
import { useAgents, leaf } from './agents.ts';

const double = rpcFunction('autograd-hostile/double', (x: Tensor) => x.mul(2));
const through = rpcFunction('autograd-hostile/through', (x: Tensor) => rpcAsync('w1', double, [x]));
const here = rpcFunction('autograd-hostile/here', () => undefined);
const group = useAgents('autograd-hostile', 3);
const LIE: Failure = { code: 'internal', name: 'RpcError', text: 'a lie' };
const OPTIONS = { retainGraph: false, fast: false, failed: [] };

function sessionAt(rank: number): AutogradSession {
  const session = (group.agents[rank] as ExtensionHost).session('dist-autograd');
  if (!(session instanceof AutogradSession)) throw new Error('no extension');
  return session;
}

/** What the member that attacks, the last of the three, says to another. */
function say(to: string, ref: ContextRef, pass: PassId): void {
  const attacker = group.agents[2] as ExtensionHost;
  const payload = encodeAbort({ context: ref, pass, failure: LIE });
  attacker.control(attacker.resolve(to), MessageType.AUTOGRAD_ABORT, payload);
}

/** What it is answered to a message of a pass. */
async function ask(to: string, type: MessageType, payload: Uint8Array, tensors: Tensor[] = []): Promise<unknown> {
  const attacker = group.agents[2] as ExtensionHost;
  const options = { raw: true, timeoutMs: 10_000, label: { kind: 'other', name: 'attack' } } as const;
  const answer = await attacker.call(attacker.resolve(to), { type, id: 0n, payload, tensors }, options);
  return decodeOutcome(answer.payload, answer.tensors.length).failure;
}

/** All that it has said before has come. */
async function heard(): Promise<void> {
  await group.at(2, () => Promise.all(['w0', 'w1'].map((to) => rpcAsync(to, here))));
}

const passOf = (rank: number, n: number): PassId => ({ ...sessionAt(rank).contexts.self, n });

it('aborts of passes that there never were take no memory, and keep no pass from running', async () => {
  await group.at(0, () =>
    context(async (id) => {
      const x = leaf([2], 1);
      // The attacker takes part: who does not is not even heard.
      const y = await rpcAsync('w2', through, [x]);
      const there = sessionAt(1).find(id);
      const invented = Array.from({ length: 4 * MAX_ORIGINS }, (_, i) => ({ worker: i, incarnation: i, n: 1 }));
      for (const pass of invented) say('w1', there.ref, pass);
      const last = invented.at(-1)!;
      await expect.poll(() => there.ended.has(last), { timeout: 20_000 }).toBe(true);
      for (const rank of [0, 1])
        expect(sessionAt(rank).find(id).ended.size).toBeLessThanOrEqual(MAX_ENDED + MAX_ORIGINS);
      expect(there.aborted.length).toBeLessThanOrEqual(64);
      await backward(id, [y.sum()]);
    }),
  );
});

it('one that has no part in a context aborts no pass of it, neither those before nor those to come', async () => {
  await group.at(0, () =>
    context(async (id) => {
      const x = leaf([2], 1);
      const y = await rpcAsync('w1', double, [x]);
      const { ref } = sessionAt(0).find(id);
      const lies = [0, 1].flatMap((origin) => [1, 2, 3, 2 ** 50].map((n) => passOf(origin, n)));
      const tell = async (): Promise<void> => {
        for (const to of ['w0', 'w1']) for (const pass of lies) say(to, ref, pass);
        await heard();
      };
      await tell();
      for (const rank of [0, 1]) expect(sessionAt(rank).find(id).ended.size).toBe(0);
      await backward(id, [y.sum()], { retainGraph: true });
      await tell();
      await backward(id, [y.sum()]);
      expect(getGradients(id).get(x)?.toArray()).toEqual([4, 4]);
    }),
  );
});

it('one that has no part in a context neither asks nor brings anything in a pass of it', async () => {
  await group.at(0, () =>
    context(async (id) => {
      const x = leaf([2], 1);
      const y = await rpcAsync('w1', double, [x]);
      const { ref } = sessionAt(0).find(id);
      const [message] = [...sessionAt(1).find(id).sends.keys()];
      const pass = passOf(0, 2 ** 50);
      const refused = {
        code: 'failed-precondition',
        text: `worker 'w2' has no part in the passes of autograd context ${id} here`,
      };
      const discover = encodeDiscover({ context: ref, pass, options: OPTIONS, messages: [message!] });
      expect(await ask('w1', MessageType.AUTOGRAD_DISCOVER_REQ, discover)).toMatchObject(refused);
      const gradients = encodeBackward({ context: ref, pass, options: OPTIONS, message: message!, present: [true] });
      const forged = tensor([100, 100]);
      expect(await ask('w1', MessageType.BACKWARD_AUTOGRAD_REQ, gradients, [forged])).toMatchObject(refused);
      expect(sessionAt(1).runner.machine.active).toBe(0);
      await backward(id, [y.sum()]);
      expect(getGradients(id).get(x)?.toArray()).toEqual([2, 2]);
    }),
  );
});

it('one that takes part does not take back what its origin knows to have succeeded', async () => {
  await group.at(0, () =>
    context(async (id) => {
      const x = leaf([2], 1);
      const y = await rpcAsync('w2', through, [x]);
      await backward(id, [y.sum()]);
      const { ref } = sessionAt(0).find(id);
      const { ended } = sessionAt(0).find(id);
      for (let n = 1; n < 100; n++) if (ended.has(passOf(0, n))) say('w0', ref, passOf(0, n));
      say('w0', ref, passOf(0, 2 ** 50));
      await heard();
      expect(getGradients(id).get(x)?.toArray()).toEqual([2, 2]);
      const z = await rpcAsync('w1', double, [x]);
      await backward(id, [z.sum()]);
      expect(getGradients(id).get(x)?.toArray()).toEqual([4, 4]);
    }),
  );
});

it('one that takes part keeps no later pass from running by a number far ahead', async () => {
  await group.at(0, () =>
    context(async (id) => {
      const x = leaf([2], 1);
      const y = await rpcAsync('w2', through, [x]);
      const { ref, sends } = sessionAt(1).find(id);
      const [message] = [...sends.keys()];
      const ahead = [2 ** 50, 2 ** 51].map((n) => passOf(0, n));
      say('w1', ref, ahead[0]!);
      // A pass that it begins in the name of another, and gives up.
      const discover = encodeDiscover({ context: ref, pass: ahead[1]!, options: OPTIONS, messages: [message!] });
      const answer = await ask('w1', MessageType.AUTOGRAD_DISCOVER_REQ, discover);
      // It comes back to the one in whose name it was begun, who knows that it was not.
      expect(answer).toMatchObject({ text: expect.stringContaining('this backward pass has ended already') as string });
      say('w1', ref, ahead[1]!);
      await heard();
      for (const pass of ahead) expect(sessionAt(1).find(id).ended.has(pass)).toBe(true);
      const z = await rpcAsync('w1', double, [x]);
      for (const root of [y, z]) await backward(id, [root.sum()]);
      expect(getGradients(id).get(x)?.toArray()).toEqual([4, 4]);
      // What fails is still taken back, and handed on.
      await expect(backward(id, [tensor([1])])).rejects.toThrow('requires_grad not set');
      const failed = sessionAt(0).find(id).aborted.at(-1)!;
      await expect.poll(() => sessionAt(1).find(id).ended.has(failed)).toBe(true);
    }),
  );
});
