/** @file A gateway with its two groups, in one process: members of a Backwire group, and workers of a torch group. */
import { createAgent, type RpcAgent, type RpcOptions } from '@backwire/rpc';
import { distAutograd } from '@backwire/dist-autograd';
import { rrefs } from '@backwire/rref';
import { expect, vi } from 'vitest';
import type { Agent } from '../src/agent.ts';
import { group } from './group.ts';

/** The torch group has n0, which is the gateway, n1 and n2; the Backwire group has the gateway, a and b. */
export class GatewayGroup {
  readonly torch: readonly Agent[];
  readonly gateway: RpcAgent;
  readonly a: RpcAgent;
  readonly b: RpcAgent;

  private constructor(torch: readonly Agent[], agents: readonly RpcAgent[]) {
    this.torch = torch;
    [this.gateway, this.a, this.b] = agents as [RpcAgent, RpcAgent, RpcAgent];
  }

  static async start(transport: string, options: Partial<RpcOptions> = {}): Promise<GatewayGroup> {
    const store = `memory://gateway-${process.pid}-${groups++}`;
    const starting = ['gateway', 'a', 'b'].map((name, rank) =>
      createAgent({
        name,
        rank,
        worldSize: 3,
        store,
        transports: [transport],
        security: { mode: 'none', iUnderstand: true },
        extensions: [rrefs(), distAutograd()],
        serve: name === 'gateway' ? [] : 'all-defined',
        ...options,
      }),
    );
    const [torch, agents] = await Promise.all([group(3), Promise.all(starting)]);
    return new GatewayGroup(torch, agents);
  }

  /** The worker that is its member in the torch group. */
  get inTorch(): Agent {
    return this.torch[0] as Agent;
  }

  /** Nobody holds an RRef, or waits for a call, in either group. */
  async isEmpty(): Promise<void> {
    await vi.waitFor(
      () => {
        for (const agent of [...this.torch, this.gateway, this.a, this.b]) {
          const { name } = agent;
          const { num_owner_rrefs, num_forks, num_pending_users, num_pending_children } = agent.debugInfo();
          expect([name, num_owner_rrefs, num_forks, num_pending_users, num_pending_children]).toEqual([
            name,
            0,
            0,
            0,
            0,
          ]);
        }
        expect(this.torch.flatMap(({ rrefs }) => [...rrefs.worker.users.all()])).toEqual([]);
        expect(this.torch.map(({ caller }) => caller.active)).toEqual(this.torch.map(() => 0));
      },
      { timeout: 20_000 },
    );
  }

  async end(): Promise<void> {
    await Promise.all([this.gateway, this.a, this.b].map((agent) => agent.shutdown({ graceful: false })));
    await Promise.all(this.torch.map((agent) => agent.shutdown({ graceful: false, timeoutMs: 2_000 })));
  }
}

let groups = 0;
