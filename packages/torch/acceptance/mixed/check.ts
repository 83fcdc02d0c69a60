/** @file A group of one worker here and two of stock torch, and what a check of it is. */
import assert from 'node:assert/strict';
import type { RRef } from '@backwire/rref';
import { rpcAsync, rpcSync } from '@backwire/rpc';
import { remote } from '@backwire/rref';
import { freePort } from '@backwire/testing';
import type { Agent } from '../../src/agent.ts';
import { member } from '../../test/member.ts';
import { Describer } from '../../test/describe.ts';
import { STUBS } from '../../test/mixed-functions.ts';
import { Python } from '../../test/python.ts';

const SIZE = 3;
const JOIN_MS = 120_000;
const LEAVE_MS = 60_000;

export interface Check {
  readonly name: string;
  run(group: Mixed): Promise<void>;
}

export const describeOf = (value: unknown): string => new Describer().value(value);

export class Mixed {
  readonly node: Agent;
  /** The names of the two workers of torch. */
  readonly first: string;
  readonly second: string;
  /** Names by id, in a static group. */
  readonly names: readonly string[];
  private readonly pythons: ReadonlyMap<string, Python>;
  private readonly inits: { readonly dynamic: boolean };

  private constructor(node: Agent, pythons: ReadonlyMap<string, Python>, names: readonly string[], dynamic: boolean) {
    this.node = node;
    this.pythons = pythons;
    this.names = names;
    [this.first, this.second] = [...pythons.keys()] as [string, string];
    this.inits = { dynamic };
  }

  /** A static group with this worker as rank `rank`. */
  static async static(rank: number): Promise<Mixed> {
    const init = `tcp://127.0.0.1:${await freePort()}`;
    const names = Array.from({ length: SIZE }, (_, each) => (each === rank ? 'node' : `py${each}`));
    const others = names.filter((name) => name !== 'node');
    const started = others.map((name) =>
      Python.start({ name, rank: names.indexOf(name), size: SIZE, init, stubs: STUBS }),
    );
    const joining = member({
      name: 'node',
      rank,
      worldSize: SIZE,
      initMethod: init,
      trustNetwork: true,
      initTimeoutMs: JOIN_MS,
    });
    const [node] = await Promise.all([joining, ...started.map(({ ready }) => ready)]);
    return new Mixed(node, new Map(others.map((name, i) => [name, started[i]!.python])), names, false);
  }

  /** A dynamic group that torch's workers have begun. */
  static async dynamic(): Promise<Mixed> {
    const init = `tcp://127.0.0.1:${await freePort()}`;
    const others = ['py0', 'py1'];
    const started = others.map((name, rank) => Python.start({ name, rank, init, stubs: STUBS }));
    await Promise.all(started.map(({ ready }) => ready));
    const node = await member({ name: 'node', membership: 'dynamic', initMethod: init, trustNetwork: true });
    return new Mixed(node, new Map(others.map((name, i) => [name, started[i]!.python])), [...others, 'node'], true);
  }

  /** Runs code in one of torch's workers: what its expression gives, as text. */
  python(name: string, ...lines: readonly string[]): Promise<string> {
    return (this.pythons.get(name) as Python).run(lines.join('\n'));
  }

  call = ((...args: Parameters<typeof rpcSync>) => this.node.run(() => rpcSync(...args))) as typeof rpcSync;
  later = ((...args: Parameters<typeof rpcAsync>) => this.node.run(() => rpcAsync(...args))) as typeof rpcAsync;
  remote = ((...args: Parameters<typeof remote>): RRef<unknown> =>
    this.node.run(() => remote(...args))) as typeof remote;

  /** Nothing of what the checks made is left, here or there. */
  async empty(): Promise<void> {
    const { users } = this.node.rrefs.worker;
    for (const fork of [...users.all()]) users.release(fork);
    const counted = 'num_pending_users num_forks num_pending_futures num_owner_rrefs'.split(' ');
    const look = `(__import__('gc').collect(), {k: int(v) for k, v in rpc._rref_context_get_debug_info().items()})[1]`;
    for (let tries = 0; ; tries++) {
      const here = this.node.debugInfo();
      const there = [await this.python(this.first, look), await this.python(this.second, look)];
      const left = [...counted, 'num_autograd_contexts', 'agent.client_active_calls'].filter(
        (name) => here[name] !== 0,
      );
      const clean = there.every((text) => counted.every((name) => text.includes(`"${name}": 0`)));
      if (left.length === 0 && clean) return;
      if (tries === 100) assert.fail(`left here: ${left.join(', ') || 'nothing'}; there: ${there.join(' ')}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  async leave(): Promise<void> {
    const pythons = [...this.pythons.values()];
    // The workers of a dynamic group leave one after the other, by the token of the group.
    if (this.inits.dynamic) {
      await this.node.shutdown({ timeoutMs: LEAVE_MS });
      assert.deepEqual(await Promise.all(pythons.map((each) => each.end())), [0, 0]);
      return;
    }
    const ends = pythons.map((each) => each.end());
    await this.node.shutdown({ timeoutMs: LEAVE_MS });
    assert.deepEqual(await Promise.all(ends), [0, 0]);
  }
}
