/** @file The store of a simulated group: one view, leases by its own clock; it pushes views to those that hold a lease. */
import type { NodeEnv, SimNode } from '@backwire/testing';
import type { Wish } from '../../src/protocol/admission.ts';
import { EMPTY_VIEW, type View } from '../../src/protocol/membership.ts';
import { type Life, type SimMessage, type StoreReply, type StoreRequest } from './messages.ts';
import type { MembershipOracle } from './oracle.ts';

export const LEASE_MS = 10_000;
/** Changes in this time are told at once. */
const PUSH_MS = 1_000;

export class SimStore implements SimNode {
  private readonly env: NodeEnv;
  private readonly oracle: MembershipOracle;
  /** A wrong store: it does not compare before it sets. */
  private readonly blind: boolean;
  private readonly incarnations = new Map<string, number>();
  private readonly leases = new Map<Life, { node: string; until: number }>();
  /** By life; of those who want in under their leases. */
  private readonly wishes = new Map<Life, Wish>();
  /** Who stands at the door, under its lease. */
  private door: Life | undefined;
  private view: View = EMPTY_VIEW;
  private pushing = false;

  constructor(env: NodeEnv, oracle: MembershipOracle, blind: boolean) {
    this.env = env;
    this.oracle = oracle;
    this.blind = blind;
  }

  onDatagram(from: string, message: unknown): void {
    const asked = message as SimMessage;
    if (asked.kind !== 'ask') return;
    const reply = this.serve(from, asked.request);
    this.env.send(from, { kind: 'answer', id: asked.id, reply } satisfies SimMessage);
  }

  /** The connection of a process that is gone is closed: its leases end a second later. */
  orphan(node: string): void {
    const soon = this.env.now() + 1_000;
    for (const lease of this.leases.values()) if (lease.node === node) lease.until = Math.min(lease.until, soon);
  }

  private serve(from: string, request: StoreRequest): StoreReply {
    const now = this.env.now();
    switch (request.op) {
      case 'incarnation': {
        const next = Math.max((this.incarnations.get(request.name) ?? 0) + 1, Math.floor(now / 1_000));
        this.incarnations.set(request.name, next);
        return next;
      }
      case 'lease':
        this.leases.set(request.life, { node: from, until: now + LEASE_MS });
        return true;
      case 'renew': {
        const lease = this.leases.get(request.life);
        if (lease === undefined || lease.until <= now) return false;
        lease.until = now + LEASE_MS;
        return true;
      }
      case 'revoke':
        return this.leases.delete(request.life);
      case 'lease-of':
        return this.lives(request.life);
      case 'view':
        return this.view;
      case 'wish':
        if (request.wish.kind === 'join' && !this.lives(request.life)) return false;
        this.wishes.set(request.life, request.wish);
        return true;
      case 'wished':
        return this.living().has(request.life);
      case 'wishes':
        return this.living();
      case 'answer':
        return request.lives.every((life) => this.wishes.delete(life));
      case 'take-door':
        if (!this.lives(request.life) || (this.door !== undefined && this.lives(this.door))) return false;
        this.door = request.life;
        return true;
      case 'leave-door':
        if (this.door === request.life) this.door = undefined;
        return true;
      case 'change':
        return this.change(request.before, request.next);
    }
  }

  /** The wishes that are there: of those who want in, as long as their leases. */
  private living(): ReadonlyMap<Life, Wish> {
    for (const [life, { kind }] of this.wishes) if (kind === 'join' && !this.lives(life)) this.wishes.delete(life);
    return new Map(this.wishes);
  }

  /** Compare-and-set. */
  private change(before: View, next: View): boolean {
    if (before !== this.view && !this.blind) return false;
    this.oracle.changed(this.view, next, (life) => !this.lives(life));
    this.view = next;
    if (!this.pushing) {
      this.pushing = true;
      this.env.setTimer(PUSH_MS, 'push', () => this.push());
    }
    return true;
  }

  private push(): void {
    this.pushing = false;
    const now = this.env.now();
    for (const [life, { node, until }] of this.leases) {
      if (until <= now) this.leases.delete(life);
      else this.env.send(node, { kind: 'news', view: this.view } satisfies SimMessage);
    }
  }

  private lives(life: Life): boolean {
    return (this.leases.get(life)?.until ?? 0) > this.env.now();
  }
}
