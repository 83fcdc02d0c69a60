/** @file States of single workers and of the store as small numbers, and what the production code makes of each event in each of them. */
import { maskOf, rankOf } from './beginning.ts';
import { copyOf } from './copy.ts';
import type { Forms } from './forms.ts';
import { Actor, WAIT_MS, type Act, type End, type StoreState, type Surroundings, type Worker } from './worker.ts';
import type { Queues } from './wires.ts';
import { lifeOf, type Life } from '../../src/protocol/membership.ts';
import type { Opinion } from '../../src/protocol/opinions.ts';

/** What an event did to a worker. */
export interface Outcome {
  readonly next: number;
  /** Rank of the receiver and packet, in turns. */
  readonly sent: readonly number[];
  /** The store afterwards; undefined when it was not looked at. */
  readonly store: number | undefined;
  /** The worker is over since this. */
  readonly ended: boolean;
  /** Claims have changed. */
  readonly claimed: boolean;
}

/** What a search asks of a state again and again. Sets of members are bits by rank. */
export interface Facts {
  readonly worker: Worker;
  readonly alive: boolean;
  /** Alive, and not standing still. */
  readonly isOn: boolean;
  readonly end: End | undefined;
  readonly stalled: boolean;
  readonly leaseless: boolean;
  readonly isStoreUp: boolean;
  /** Of the view as the store had it last. */
  readonly epoch: number;
  readonly members: number;
  /** By rank. */
  readonly opinions: readonly Opinion[];
  readonly certain: number;
  readonly unwritten: number;
  readonly parks: boolean;
  readonly troubled: boolean;
  /** Time changes nothing. */
  readonly timeless: boolean;
}

export interface StoreFacts {
  readonly state: StoreState;
  readonly isEmpty: boolean;
  readonly epoch: number;
  readonly members: number;
  readonly claimants: number;
  /** The store after a change that is not a worker's. */
  readonly changes: Map<string, number>;
}

/** Where a worker is when something happens to it. */
interface Place {
  readonly answers: boolean;
  readonly down: boolean;
  readonly store: number;
}

/** Numbers of stores fit so many values, and those of packets leave as many for events. */
const MANY = 2 ** 20;
const LOOKED: Outcome = { next: 0, sent: [], store: undefined, ended: false, claimed: false };

export class Locals {
  readonly facts: Facts[] = [];
  readonly stores: StoreFacts[] = [];
  private readonly forms: Forms;
  private readonly queues: Queues;
  private readonly everybody: readonly Life[];
  private readonly numbers = new Map<string, number>();
  private readonly storeNumbers = new Map<string, number>();
  private readonly outcomes: Map<number, Outcome>[] = [];

  constructor(forms: Forms, queues: Queues, everybody: readonly Life[]) {
    this.forms = forms;
    this.queues = queues;
    this.everybody = everybody;
  }

  /**
   * What an event does, run once and remembered. `event` tells events apart at one state. What did not look at the store is remembered for
   * every store.
   */
  step(local: number, event: number, place: Place, act: Act): Outcome {
    const outcomes = this.outcomes[local] as Map<number, Outcome>;
    const key = ((event * 2 + (place.answers ? 1 : 0)) * 2 + (place.down ? 1 : 0)) * MANY;
    const known = outcomes.get(key);
    if (known !== undefined && known !== LOOKED) return known;
    if (known === LOOKED) {
      const exactly = outcomes.get(key + 1 + place.store);
      if (exactly !== undefined) return exactly;
    }
    const made = this.run(local, place, act);
    if (made.store === undefined) outcomes.set(key, made);
    else {
      if (place.store + 1 >= MANY || event * 4 >= MANY * 4096) throw new RangeError('too many stores or packets');
      outcomes.set(key, LOOKED);
      outcomes.set(key + 1 + place.store, made);
    }
    return made;
  }

  number(worker: Worker): number {
    const text = this.forms.worker(worker);
    let number = this.numbers.get(text);
    if (number === undefined) {
      number = this.facts.push(this.factsOf(worker)) - 1;
      this.numbers.set(text, number);
      this.outcomes.push(new Map());
    }
    return number;
  }

  store(state: StoreState): number {
    const text = this.forms.store(state);
    let number = this.storeNumbers.get(text);
    if (number === undefined) {
      const { view, isEmpty, claims } = state;
      const members = maskOf(view.members.map(lifeOf));
      const facts = {
        state,
        isEmpty,
        epoch: view.epoch,
        members,
        claimants: maskOf(claims.keys()),
        changes: new Map(),
      };
      number = this.stores.push(facts) - 1;
      this.storeNumbers.set(text, number);
    }
    return number;
  }

  /** The store without what a worker has claimed. */
  unclaimed(store: number, by: Life): number {
    return this.changed(store, by, (state) => {
      const claims = new Map(state.claims);
      claims.delete(by);
      return { ...state, claims };
    });
  }

  /** The store when it has lost everything; its view is what was in it, until a worker writes the one that it knows. */
  emptied(store: number): number {
    return this.changed(store, 'emptied', (state) => ({ ...state, isEmpty: true, claims: new Map() }));
  }

  private changed(store: number, how: string, change: (state: StoreState) => StoreState): number {
    const { state, changes } = this.stores[store] as StoreFacts;
    let next = changes.get(how);
    if (next === undefined) changes.set(how, (next = this.store(change(state))));
    return next;
  }

  private run(local: number, place: Place, act: Act): Outcome {
    const worker = copyOf((this.facts[local] as Facts).worker);
    const sent: number[] = [];
    let looked = false;
    let store = (this.stores[place.store] as StoreFacts).state;
    const around: Surroundings = {
      everybody: this.everybody,
      answers: place.answers,
      down: place.down,
      claimed: false,
      get store() {
        looked = true;
        return store;
      },
      set store(next) {
        store = next;
      },
      send: (to, packet) => void sent.push(rankOf(to), this.queues.packet(packet)),
    };
    act(new Actor(worker, around));
    return {
      next: this.number(worker),
      sent: worker.alive ? sent : [],
      store: looked ? this.store(store) : undefined,
      ended: !worker.alive,
      claimed: around.claimed,
    };
  }

  private factsOf(worker: Worker): Facts {
    const { alive, end, stalled, leaseless, agreement, membership, parked, clock } = worker;
    return {
      worker,
      alive,
      isOn: alive && !stalled,
      end,
      stalled,
      leaseless,
      isStoreUp: agreement.isStoreUp,
      epoch: membership.stored.epoch,
      members: maskOf(membership.view.members.map(lifeOf)),
      opinions: this.everybody.map((life) => agreement.opinionOf(life)),
      certain: maskOf(this.everybody.filter((life) => agreement.isCertain(life, clock))),
      unwritten: maskOf(membership.unwritten.keys()),
      parks: parked.length > 0,
      troubled: agreement.isTroubled(clock),
      timeless: JSON.stringify(agreement.snapshot(clock)) === JSON.stringify(agreement.snapshot(clock + WAIT_MS)),
    };
  }
}
