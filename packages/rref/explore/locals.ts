/** @file States of single workers as small numbers, and what the production code makes of each event in each of them. */
import type { GlobalId, MemberKey } from '../src/protocol/ids.ts';
import type { Control } from '../src/protocol/messages.ts';
import type { Rules } from '../src/protocol/rules.ts';
import { ProtocolWorker, type WorkerState } from '../src/protocol/worker.ts';
import { bitOf, idText, rename, type Packet, type Queues, type Renaming } from './packets.ts';

/** What an event did to a worker: its state afterwards, and what it sent. */
export interface Outcome {
  readonly next: number;
  /** Receiver and packet, in turns. */
  readonly sent: readonly number[];
  /** Whether the owner let go of the value. */
  readonly freed: boolean;
  /** What the event answered: whether a creation was accepted, or a handle came home. */
  readonly yes: boolean;
}

/** What the search asks of a state again and again. */
export interface Facts {
  readonly state: WorkerState<true>;
  /** The view it has seen. */
  readonly epoch: number;
  /** Ids it mentions, tombstones apart. */
  readonly mentions: number;
  readonly tombstones: number;
  /** Forks that the program holds and may use. */
  readonly usable: readonly GlobalId[];
  /** Forks that the program holds, usable or not. */
  readonly held: readonly GlobalId[];
  readonly creating: readonly GlobalId[];
  /** Forks that are confirmed and did not fail. */
  readonly confirmed: number;
  /** As an owner: the forks registered for each holder. */
  readonly registered: readonly number[];
  /** An RRef whose creating call has not run. */
  readonly toRun: GlobalId | undefined;
  /** What is left in its tables once nobody holds anything; undefined when nothing is. */
  readonly remains: string | undefined;
}

/** One run of the production code of one worker. `yes` is what it answers to the caller. */
export type Act = (worker: ProtocolWorker<true>, send: (to: MemberKey, packet: Packet) => void) => boolean | undefined;

/** Number 0 is a worker that died. */
export class Locals {
  readonly facts: Facts[];
  private readonly rules: Rules;
  private readonly queues: Queues;
  private readonly renamings: readonly Renaming[];
  private readonly numbers = new Map<string, number>();
  private readonly outcomes: Map<number, Outcome>[] = [new Map<number, Outcome>()];
  private readonly renamed: number[][];

  constructor(rules: Rules, queues: Queues, renamings: readonly Renaming[]) {
    this.rules = rules;
    this.queues = queues;
    this.renamings = renamings;
    this.renamed = renamings.map(() => [0]);
    this.facts = [undefined as never];
  }

  /** A worker as it starts. */
  start(self: MemberKey, act: Act): number {
    return this.run(self, undefined, act).next;
  }

  /** What an event does, run once and remembered. `event` tells events apart at one state; `drawn` is the next id's number. */
  step(local: number, event: number, act: Act, drawn = 0): Outcome {
    const known = (this.outcomes[local] as Map<number, Outcome>).get(event);
    if (known !== undefined) return known;
    const { state } = this.facts[local] as Facts;
    const made = this.run(state.self, { ...state, drawn }, act);
    (this.outcomes[local] as Map<number, Outcome>).set(event, made);
    return made;
  }

  /** The state with its members renamed by the renaming of this index. */
  rename(local: number, index: number): number {
    const table = this.renamed[index] as number[];
    return (table[local] ??= this.number(
      renameState((this.facts[local] as Facts).state, this.renamings[index] as Renaming),
    ));
  }

  /** The state with only those tombstones whose ids anybody can still mention. */
  forget(local: number, mentioned: number): number {
    const { state } = this.facts[local] as Facts;
    const tombstones = state.owner.tombstones.filter((id) => (bitOf(id) & mentioned) !== 0);
    return this.number({ ...state, owner: { ...state.owner, tombstones } });
  }

  private run(self: MemberKey, state: WorkerState<true> | undefined, act: Act): Outcome {
    const sent: number[] = [];
    let freed = false;
    const send = (to: MemberKey, packet: Packet): void => void sent.push(to, this.queues.packet(packet));
    const port = {
      send: (to: MemberKey, message: Control) => send(to, message),
      settled: () => undefined,
      dropped: () => undefined,
      freed: () => void (freed = true),
      failed: () => undefined,
    };
    const worker = new ProtocolWorker<true>(self, port, {
      rules: this.rules,
      ...(state === undefined ? {} : { state }),
    });
    const yes = act(worker, send) === true;
    return { next: this.number(canonical(worker.snapshot())), sent, freed, yes };
  }

  private number(state: WorkerState<true>): number {
    const text = textOf(state);
    let known = this.numbers.get(text);
    if (known === undefined) {
      known = this.facts.push(factsOf(state)) - 1;
      this.numbers.set(text, known);
      this.outcomes.push(new Map());
    }
    return known;
  }
}

/**
 * Equal for states that behave alike: tables in the order of their ids, and nothing that is only history. How many ids were drawn
 * is history too: the world says which id a worker draws next.
 */
function canonical(state: WorkerState<true>): WorkerState<true> {
  const { owner, user, fence } = state;
  return {
    ...state,
    drawn: 0,
    owner: {
      entries: [...owner.entries].sort(byId),
      forks: [...owner.forks].sort(byId),
      tombstones: [...owner.tombstones].sort(order),
    },
    user: { forks: [...user.forks].sort(byId), children: [...user.children].sort(byId) },
    fence: {
      ...fence,
      members: [...fence.members].sort(),
      dead: [...fence.dead].sort(),
      waiting: [...fence.waiting].sort(),
      fenceEpoch: fence.dead.length > 0 ? fence.fenceEpoch : 0,
      asked: [...fence.asked].sort(([a], [b]) => a - b),
    },
  };
}

function renameState(state: WorkerState<true>, to: Renaming): WorkerState<true> {
  const { owner, user, fence } = state;
  const member = (old: MemberKey): MemberKey => to[old] as MemberKey;
  const id = (old: GlobalId): GlobalId => rename(old, to);
  return canonical({
    ...state,
    self: member(state.self),
    dead: state.dead.map(([worker, incarnation]) => [member(worker), incarnation] as const).sort(([a], [b]) => a - b),
    owner: {
      entries: owner.entries.map((entry) => ({ ...entry, id: id(entry.id) })),
      forks: owner.forks.map((fork) => ({ id: id(fork.id), rref: id(fork.rref), holder: member(fork.holder) })),
      tombstones: owner.tombstones.map((fork) => ({ ...id(fork), holder: member(fork.holder) })),
    },
    user: {
      forks: user.forks.map((fork) => ({
        ...fork,
        id: id(fork.id),
        rref: id(fork.rref),
        owner: member(fork.owner),
        parent: member(fork.parent),
      })),
      children: user.children.map((child) => ({ id: id(child.id), parent: id(child.parent), at: member(child.at) })),
    },
    fence: {
      ...fence,
      members: fence.members.map(member),
      dead: fence.dead.map(member),
      waiting: fence.waiting.map(member),
      asked: fence.asked.map(
        ([owner_, { epoch, dead }]) => [member(owner_), { epoch, dead: dead.map(member) }] as const,
      ),
    },
  });
}

function textOf({ self, dead, owner, user, fence }: WorkerState<true>): string {
  const forks = user.forks.map(
    ({ id, parent, phase, released, failure }) =>
      `${idText(id)}<${parent}${phase}${released ? '-' : ''}${failure?.code ?? ''}`,
  );
  return [
    self,
    dead.join(),
    owner.entries.map(({ id, phase }) => `${idText(id)}${phase}`).join(),
    owner.forks.map(({ id, holder }) => `${idText(id)}@${holder}`).join(),
    owner.tombstones.map((fork) => `${idText(fork)}@${fork.holder}`).join(),
    forks.join(),
    user.children.map(({ id, parent, at }) => `${idText(id)}<${idText(parent)}@${at}`).join(),
    fence.epoch,
    fence.members.join(),
    fence.dead.join(),
    fence.waiting.join(),
    fence.fenceEpoch,
    fence.asked.map(([member, { epoch, dead: asked }]) => `${member}:${epoch}:${[...asked].sort().join('+')}`).join(),
  ].join('/');
}

function factsOf(state: WorkerState<true>): Facts {
  const { owner, user, fence } = state;
  const held = user.forks.filter((fork) => !fork.released);
  const registered = [0, 0, 0, 0];
  for (const { id, holder } of owner.forks) registered[holder] = (registered[holder] as number) | bitOf(id);
  return {
    state,
    epoch: fence.epoch,
    mentions: maskOf(owner.forks) | maskOf(user.forks) | maskOf(user.children),
    tombstones: owner.tombstones.reduce((mask, id) => mask | bitOf(id), 0),
    usable: held.filter((fork) => fork.failure === undefined).map(({ id }) => id),
    held: held.map(({ id }) => id),
    creating: user.forks.filter(({ phase }) => phase === 'creating').map(({ id }) => id),
    confirmed: maskOf(user.forks.filter((fork) => fork.phase === 'confirmed' && fork.failure === undefined)),
    registered,
    toRun: owner.entries.find(({ phase }) => phase === 'created')?.id,
    remains: remainsOf(state),
  };
}

function remainsOf({ owner, user, fence }: WorkerState<true>): string | undefined {
  if (owner.entries.length > 0) return 'an RRef that nobody holds';
  if (owner.forks.length > 0) return 'a fork that nobody holds';
  if (user.forks.length > 0) return 'a released fork that is never deleted';
  if (user.children.length > 0) return 'a child that is never accepted';
  return fence.dead.length > 0 ? 'a fence that never closes' : undefined;
}

function maskOf(items: readonly { readonly id: GlobalId }[]): number {
  return items.reduce((mask, { id }) => mask | bitOf(id), 0);
}

function byId(a: { readonly id: GlobalId }, b: { readonly id: GlobalId }): number {
  return order(a.id, b.id);
}

function order(a: GlobalId, b: GlobalId): number {
  return a.member - b.member || a.local - b.local;
}
