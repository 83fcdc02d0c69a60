/** @file The store of a simulated group in doubt: a view, leases, claims. Stopped, it forgives the time; started anew, it knows nothing. */
import type { NodeEnv, SimNode } from '@backwire/testing';
import { EMPTY_VIEW, type Life, type View } from '../../src/protocol/membership.ts';
import type { Claim } from '../../src/protocol/parts.ts';
import type { DoubtMessage, StoreReply, StoreRequest } from './messages.ts';
import type { DoubtOracle } from './oracle.ts';

export const LEASE_MS = 3_000;
const TURN_MS = 500;

export class DoubtStore implements SimNode {
  private readonly env: NodeEnv;
  private readonly oracle: DoubtOracle;
  private readonly leases = new Map<Life, number>();
  private readonly held = new Map<Life, Claim>();
  private view: View = EMPTY_VIEW;
  private count = 0;
  private turnedAt: number;

  constructor(env: NodeEnv, oracle: DoubtOracle) {
    this.env = env;
    this.oracle = oracle;
    this.turnedAt = env.now();
    this.turn();
  }

  onDatagram(from: string, message: unknown): void {
    const asked = message as DoubtMessage;
    if (asked.kind !== 'ask') return;
    const reply = this.serve(asked.request);
    this.env.send(from, { kind: 'answer', id: asked.id, reply } satisfies DoubtMessage);
  }

  /** What it stood still is nobody's fault: leases last so much longer. */
  private turn(): void {
    const late = this.env.now() - this.turnedAt - TURN_MS;
    if (late > TURN_MS) for (const [life, until] of this.leases) this.leases.set(life, until + late);
    this.turnedAt = this.env.now();
    this.env.setTimer(TURN_MS, 'turn', () => this.turn());
  }

  private serve(request: StoreRequest): StoreReply {
    const now = this.env.now();
    switch (request.op) {
      case 'incarnation':
        // By the clock too: a store that began anew must not make one twice.
        return (this.count = Math.max(this.count + 1, Math.floor(now)));
      case 'renew':
        this.leases.set(request.life, now + LEASE_MS);
        return this.view;
      case 'view':
        return this.view;
      case 'lease-of':
        return (this.leases.get(request.life) ?? 0) > now;
      case 'change':
        if (request.before !== this.view) return false;
        this.oracle.changed(this.view, request.next);
        this.view = request.next;
        return true;
      case 'claim':
        if (request.claim === undefined) this.held.delete(request.life);
        else this.held.set(request.life, request.claim);
        return this.claims();
      case 'claims':
        return this.claims();
    }
  }

  /** They are held by their makers' leases. */
  private claims(): Claim[] {
    const now = this.env.now();
    return [...this.held].filter(([life]) => (this.leases.get(life) ?? 0) > now).map(([, claim]) => claim);
  }
}
