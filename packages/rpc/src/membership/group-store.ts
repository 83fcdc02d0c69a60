/** @file What a group keeps in its store: the view, a lease for each member, claims of parts; and whether the store answers. */
import { RpcError } from '../base/errors.ts';
import { readAge } from '../liveness/keep-alive.ts';
import { unref } from '../base/platform.ts';
import { sleepUnref } from '../base/within.ts';
import { EMPTY_VIEW, isIncarnation, lifeOf, type Life, type View } from '../protocol/membership.ts';
import { decodeWish, encodeWish, type Wish } from '../protocol/admission.ts';
import type { Claim } from '../protocol/parts.ts';
import type { Lease, Store } from '../stores/store.ts';
import { isRefusal } from '../transports/dialling.ts';
import { bytesOf, viewOf } from './view-bytes.ts';

/** `down`: its host says that it does not run. */
export type StoreState = 'up' | 'silent' | 'down';

/** What the store says of a member's lease. `unknown`: the store has forgotten it, or never had it, and that says nothing. */
export type LeaseState =
  { readonly state: 'alive'; readonly ageMs: number } | { readonly state: 'gone' } | { readonly state: 'unknown' };

export interface GroupStoreOptions {
  /** Keys of this group alone. */
  readonly store: Store;
  /** How long an answer may take before the store counts as away, in milliseconds. */
  readonly patienceMs: number;
  /** How long a store that lost its contents is forgiven that a member holds no lease in it: as long as that one may be busy. */
  readonly forgivenMs: number;
  /** Told of each answer, and of each that does not come. */
  readonly onState: (state: StoreState) => void;
  now(): number;
}

export type Living = Parameters<typeof lifeOf>[0];

export const VIEW_KEY = 'view';
/** The latest incarnation that was drawn. */
const COUNT_KEY = 'incarnation';
const CONFLICT_PREFIX = 'conflict/';
/** Of how many an error tells. */
const MAX_CONFLICTS = 3;
const CLAIMS_PREFIX = 'claims/';
/** What workers want of the view, each under its life, and who takes them in. */
const WISHES_PREFIX = 'wishes/';
const DOOR_KEY = 'door';
/** The epoch at which a closed group was complete last. Says that it is time to look, and nothing else. */
const COMPLETE_KEY = 'complete';
/** 2024-01-01, in seconds: incarnations count from there. */
const EPOCH_S = 1_704_067_200;
/** A clock that is further on is wrong, and would leave no incarnations for what comes after it. */
const MOST_S = 2 ** 31;
/** A compare-and-set that loses so often in a row meets a store that does not work. */
export const MAX_ATTEMPTS = 1_000;
/** Between two tries to look at the store. */
const RETRY_MS = 200;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export class GroupStore {
  private readonly options: GroupStoreOptions;
  /** When the store was found to have lost its contents, and the leases that have been seen in it since. */
  private forgotAt = -Infinity;
  private readonly seen = new Set<Life>();

  constructor(options: GroupStoreOptions) {
    this.options = options;
  }

  /** Asks the store something, and notes whether it answers. */
  async ask<T>(question: (store: Store) => Promise<T>): Promise<T> {
    const { store, patienceMs, onState } = this.options;
    const late = unref(setTimeout(() => onState('silent'), patienceMs));
    try {
      const answer = await question(store);
      onState('up');
      return answer;
    } catch (error) {
      if (RpcError.from(error).code === 'unavailable') onState(isRefusal(error) ? 'down' : 'silent');
      throw error;
    } finally {
      clearTimeout(late);
    }
  }

  /** @throws RpcError 'failed-precondition' when the key holds something else. */
  async view(): Promise<View> {
    const bytes = await this.ask((store) => store.get(VIEW_KEY));
    if (bytes === undefined) return EMPTY_VIEW;
    const view = viewOf(bytes);
    if (view === undefined)
      throw new RpcError('failed-precondition', 'the store holds something that is not the view of a group');
    return view;
  }

  /** Whether the view was `before` and is `next` now. */
  async setView(before: View, next: View): Promise<boolean> {
    const expected = before === EMPTY_VIEW ? null : bytesOf(before);
    const { ok } = await this.ask((store) => store.compareAndSet(VIEW_KEY, expected, bytesOf(next)));
    const { size = Infinity } = next;
    // Those who wait for it look by themselves now and then, should this fail.
    if (ok && next.members.length >= size && before.members.length < size)
      await this.ask((store) => store.set(COMPLETE_KEY, encoder.encode(`${next.epoch}`))).catch(() => undefined);
    return ok;
  }

  /** Calls `fn` whenever a closed group may have become complete. */
  async watchComplete(signal: AbortSignal, fn: () => void): Promise<void> {
    for await (const { key, type } of this.options.store.watch(COMPLETE_KEY, { signal }))
      if (key === COMPLETE_KEY && type !== 'delete') fn();
  }

  /** Tells one whose name or id another wants why that one cannot join. */
  async tellConflict({ name }: Living, text: string): Promise<void> {
    await this.options.store.set(CONFLICT_PREFIX + name, encoder.encode(text));
  }

  /** Calls `fn` with each conflict about a name, and with undefined when one may have been missed. */
  async watchConflict(name: string, signal: AbortSignal, fn: (text: string | undefined) => void): Promise<void> {
    const key = CONFLICT_PREFIX + name;
    for await (const event of this.options.store.watch(key, { signal }))
      // A watch is for all keys that begin so: worker1 is not to hear of worker10.
      fn(event.key === key && event.value !== undefined ? decoder.decode(event.value) : undefined);
  }

  /** What was told of names and ids that two workers wanted, the first few of it. */
  async conflicts(): Promise<string[]> {
    const told = await this.ask((store) => store.list(CONFLICT_PREFIX));
    return [...told.values()].slice(0, MAX_CONFLICTS).map((text) => decoder.decode(text));
  }

  // Wishes, and who looks at them

  /** One who wants in has to live; whoever wants out has said so, also when it ends before somebody looks. */
  async wish(life: Life, wish: Wish, lease: Lease): Promise<void> {
    const under = wish.kind === 'join' ? { lease } : {};
    await this.ask((store) => store.set(WISHES_PREFIX + life, encodeWish(wish), under));
  }

  async wishes(): Promise<Map<Life, Wish>> {
    const found = await this.ask((store) => store.list(WISHES_PREFIX));
    const wishes = new Map<Life, Wish>();
    for (const [key, bytes] of found) {
      const wish = decodeWish(bytes);
      const life = key.slice(WISHES_PREFIX.length);
      if (wish !== undefined && lifeOfWish(wish) === life) wishes.set(life, wish);
    }
    return wishes;
  }

  /** Wishes that were looked at. */
  async answer(lives: Iterable<Life>): Promise<void> {
    await Promise.all([...lives].map((life) => this.ask((store) => store.delete(WISHES_PREFIX + life))));
  }

  /** Resolves when somebody has looked at a wish, or may have. The watch has begun when this returns. */
  watchWish(life: Life, signal: AbortSignal): Promise<void> {
    const key = WISHES_PREFIX + life;
    const events = this.options.store.watch(key, { signal });
    const looked = async (): Promise<void> => {
      for await (const event of events)
        if (event.type === 'resync' || (event.type === 'delete' && event.key === key)) return;
      // It was stopped: nobody waits any more.
    };
    return looked();
  }

  /** Whether `life` is the one that takes others in, until it leaves the door or its lease ends. */
  async takeDoor(life: Life, lease: Lease): Promise<boolean> {
    return (await this.ask((store) => store.compareAndSet(DOOR_KEY, null, encoder.encode(life), { lease }))).ok;
  }

  /** Says at the door that others were taken in, `batches` times by now. False when `life` does not stand there any more. */
  async goOn(life: Life, batches: number, lease: Lease): Promise<boolean> {
    const said = (times: number): Uint8Array => encoder.encode(times === 0 ? life : `${life} ${times}`);
    const change = this.ask((store) => store.compareAndSet(DOOR_KEY, said(batches - 1), said(batches), { lease }));
    return (await change).ok;
  }

  /** Who stands at the door, with how often others were taken in: another text is a sign that they are; undefined: nobody. */
  async door(): Promise<string | undefined> {
    const found = await this.ask((store) => store.get(DOOR_KEY));
    return found === undefined ? undefined : decoder.decode(found);
  }

  async leaveDoor(): Promise<void> {
    await this.ask((store) => store.delete(DOOR_KEY));
  }

  async isDoorTaken(): Promise<boolean> {
    return (await this.door()) !== undefined;
  }

  /**
   * Higher than any before it, by the store's memory and by the clock, so that neither alone can make one twice. All names count
   * together: what a worker made is known by its id and incarnation, and the id may be another worker's next.
   */
  async drawIncarnation(name: string, view: View): Promise<{ readonly incarnation: number; readonly index: number }> {
    const { store } = this.options;
    // A store that started anew knows the lives in its view, at least.
    let former = 0;
    for (const { incarnation } of [...view.members, ...view.departed]) former = Math.max(former, incarnation);
    const index = Number(await store.add(`lives/${name}`, 1n)) - 1;
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const before = await store.get(COUNT_KEY);
      const last = before === undefined ? 0 : Number(decoder.decode(before));
      const least = Math.max(former + 1, secondsNow());
      if (last >= least) {
        // Adding never loses against the others who join now.
        const incarnation = Number(await store.add(COUNT_KEY, 1n));
        if (!isIncarnation(incarnation)) throw tooMany(incarnation);
        if (incarnation > former) return { incarnation, index };
      } else if ((await store.compareAndSet(COUNT_KEY, before ?? null, encoder.encode(String(least)))).ok) {
        return { incarnation: least, index };
      }
    }
    throw new RpcError('unavailable', 'the store refuses every incarnation');
  }

  /** Says under a lease that a member has it. */
  async hold(member: Living, lease: Lease): Promise<void> {
    await this.ask((store) => store.set(leaseKey(member), encoder.encode('1'), { lease }));
  }

  /** The store started anew: what is not there says nothing for a while. */
  forgot(): void {
    this.forgotAt = this.options.now();
    this.seen.clear();
  }

  async leaseOf(member: Living): Promise<LeaseState> {
    const ageMs = await this.ask((store) => readAge(store, ageKey(member)));
    const life = lifeOf(member);
    if (ageMs !== undefined) {
      this.seen.add(life);
      return { state: 'alive', ageMs };
    }
    const forgiven = this.options.now() - this.forgotAt < this.options.forgivenMs;
    return { state: forgiven && !this.seen.has(life) ? 'unknown' : 'gone' };
  }

  /** Calls `gone` when a member's lease is not there, and whenever it ends, until `signal` aborts. Costs nothing while it lasts. */
  async watchLease(member: Living, signal: AbortSignal, gone: () => void): Promise<void> {
    const key = leaseKey(member);
    const { store } = this.options;
    const events = store.watch(key, { signal });
    const look = async (): Promise<void> => {
      const found = await this.patiently(signal, () => store.get(key));
      if (found === undefined && !signal.aborted) gone();
    };
    await look();
    for await (const event of events) {
      // A watch is for all keys that begin so: worker1 is not worker10.
      if (event.type === 'resync') await look();
      else if (event.type === 'delete' && event.key === key && !signal.aborted) gone();
    }
  }

  /** What a member claims to be the group; undefined = nothing any more. */
  async claim(self: Living, claim: Claim | undefined, lease: Lease): Promise<void> {
    const key = `${CLAIMS_PREFIX}${lifeOf(self)}`;
    if (claim === undefined) await this.ask((store) => store.delete(key));
    else await this.ask((store) => store.set(key, encoder.encode(JSON.stringify(claim)), { lease }));
  }

  async claims(): Promise<Claim[]> {
    const found = await this.ask((store) => store.list(CLAIMS_PREFIX));
    return [...found.values()].map(readClaim).filter((claim) => claim !== undefined);
  }

  /** Tries until the store answers. */
  private async patiently<T>(signal: AbortSignal, question: () => Promise<T>): Promise<T | undefined> {
    while (!signal.aborted) {
      try {
        return await question();
      } catch (error) {
        if (RpcError.from(error).code !== 'unavailable') throw error;
        await sleepUnref(RETRY_MS);
      }
    }
    return undefined;
  }
}

/** By this clock, as far as it can be right. */
function secondsNow(): number {
  const seconds = Math.floor(Date.now() / 1000) - EPOCH_S;
  return seconds > 0 && seconds < MOST_S ? seconds : 0;
}

function tooMany(count: number): RpcError {
  const text = `the store counts ${count} lives of workers under '${COUNT_KEY}', which no group has had: delete that key, or give another store or group`;
  return new RpcError('failed-precondition', text);
}

/** Where a member's liveness says how long its main loop has been busy. */
export function ageKey(member: Living): string {
  return `age/${lifeOf(member)}`;
}

function lifeOfWish(wish: Wish): Life {
  return wish.kind === 'join' ? lifeOf(wish.member) : wish.life;
}

function leaseKey(member: Living): string {
  return `lease/${lifeOf(member)}`;
}

function readClaim(bytes: Uint8Array): Claim | undefined {
  try {
    const { by, part, doubts } = JSON.parse(decoder.decode(bytes)) as Record<string, unknown>;
    if (typeof by !== 'string' || !isLives(part) || !isLives(doubts)) return undefined;
    return { by, part, doubts };
  } catch {
    return undefined;
  }
}

function isLives(value: unknown): value is Life[] {
  return Array.isArray(value) && value.every((life) => typeof life === 'string');
}
