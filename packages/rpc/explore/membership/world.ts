/** @file The worlds of one exploration as rows of numbers: what can happen in each, and where it leads. */
import type { EmitRow, RowModel } from '@backwire/testing';
import { beginning } from './beginning.ts';
import type { Scenario } from './bounds.ts';
import { reduced, type Forms } from './forms.ts';
import { Locals, type Facts, type Outcome } from './locals.ts';
import type { Packet } from './packet.ts';
import { contradiction, faultAtRest } from './requirements.ts';
import { BIT, Rows, type Event } from './rows.ts';
import type { Act } from './worker.ts';
import { Queues } from './wires.ts';
import type { Opinion } from '../../src/protocol/opinions.ts';

/** What can happen to a worker, and what it is with: another's rank, an opinion, a packet. */
const KIND = { die: 0, stall: 1, wake: 2, wait: 3, askStore: 4, notice: 5, refused: 6, deliver: 7, lookAtClaims: 8 };
const OPINIONS: readonly Opinion[] = ['unsure', 'heard', 'stuck', 'doubted', 'refused', 'gone'];

export class Worlds implements RowModel {
  readonly name: string;
  readonly width: number;
  /** What a row says. */
  readonly rows: Rows;
  private readonly scenario: Scenario;
  private readonly forms: Forms;
  private readonly queues: Queues;
  private readonly locals: Locals;
  private readonly start: Uint32Array;
  /** The row that a step is making. */
  private readonly row: Uint32Array;

  constructor(scenario: Scenario, forms: Forms = reduced) {
    const { workers, view } = beginning(scenario);
    const lives = workers.map(({ life }) => life);
    this.name = scenario.name;
    this.scenario = scenario;
    this.forms = forms;
    this.queues = new Queues(forms);
    this.locals = new Locals(forms, this.queues, lives);
    this.rows = new Rows(scenario, this.locals, lives);
    this.width = this.rows.width;
    this.row = new Uint32Array(this.width);
    this.start = new Uint32Array(this.width);
    for (const worker of workers) this.start[worker.rank] = this.locals.number(worker);
    this.start[this.rows.storeAt] = this.locals.store({ view, isEmpty: false, claims: new Map() });
  }

  initial(): Uint32Array {
    return this.start.slice();
  }

  steps(from: Uint32Array, emit: EmitRow): void {
    this.outside(from, emit);
    // Time passes slowly: what members and wires have to do is done before.
    if (this.inside(from, emit) || !this.rows.isWaiting(from)) return;
    this.begin(from);
    for (let rank = 0; rank < this.rows.size; rank++) {
      const loses = this.rows.storeRuns(this.row) && !this.rows.reaches(this.row, rank, this.rows.size);
      this.act(rank, KIND.wait + 16 * (loses ? 1 : 0), (actor) => actor.wait(loses));
      if (this.rows.facts(this.row, rank).isOn && this.rows.claims(this.row, rank)) this.lookAtClaims(rank);
    }
    this.end(emit, () => 'time passes');
  }

  invariant(row: Uint32Array): string | undefined {
    return contradiction(this.rows, row);
  }

  terminal(row: Uint32Array): string | undefined {
    return faultAtRest(this.rows, row) ?? this.scenario.ends?.(this.rows.ended(row));
  }

  /** Gives the text of a row by other forms than it was found by, to compare two searches. */
  textsBy(forms: Forms): (row: Uint32Array) => string {
    const workers = new Map<number, string>();
    const { rows, locals, queues } = this;
    const textOf = (local: number): string => {
      let text = workers.get(local);
      if (text === undefined) workers.set(local, (text = forms.worker((locals.facts[local] as Facts).worker)));
      return text;
    };
    return (row) => {
      const texts = [forms.store(rows.store(row).state), String(row[rows.eventsAt])];
      for (let from = 0; from < rows.size; from++) {
        texts.push(textOf(row[from] as number));
        for (let to = 0; to < rows.size; to++) {
          const isRead = from !== to && (!forms.forgets || rows.isRead(row, from, to));
          const packets = isRead ? queues.packetsOf(row[rows.wire(from, to)] as number) : [];
          texts.push(packets.map((packet) => forms.packet(packet)).join());
        }
      }
      return texts.join('\n');
    };
  }

  /** The numbers of states that were told apart: of workers, of the store, and of packets. */
  get told(): readonly [workers: number, stores: number, packets: number] {
    return [this.locals.facts.length, this.locals.stores.length, this.queues.packets.length];
  }

  // What happens from outside

  private outside(from: Uint32Array, emit: EmitRow): void {
    const { bounds } = this.rows;
    const once = (event: Event, when: boolean): void => {
      if (!when || this.rows.has(from, event)) return;
      this.begin(from);
      this.row[this.rows.eventsAt] = (from[this.rows.eventsAt] as number) | BIT[event];
      this.happen(event);
      this.end(emit, () => `event ${event}`);
    };
    once('death', bounds.death !== undefined && this.rows.facts(from, bounds.death.of).alive);
    once('stall', bounds.stall !== undefined && this.rows.facts(from, bounds.stall).alive);
    once('wakes', this.rows.has(from, 'stall'));
    once('cut', bounds.cut !== undefined);
    once('mended', this.rows.has(from, 'cut') && bounds.mended !== false);
    once('store goes', bounds.store !== undefined);
    once('store returns', this.rows.has(from, 'store goes') && bounds.store !== 'never');
  }

  private happen(event: Event): void {
    const { death, stall = 0, store } = this.rows.bounds;
    if (event === 'death') this.act(death?.of ?? 0, KIND.die, (actor) => actor.over('killed'));
    else if (event === 'stall') this.act(stall, KIND.stall, ({ worker }) => (worker.stalled = true));
    else if (event === 'wakes') this.act(stall, KIND.wake, ({ worker }) => (worker.stalled = false));
    else if (event === 'store returns' && store === 'empty')
      this.row[this.rows.storeAt] = this.locals.emptied(this.row[this.rows.storeAt] as number);
  }

  // What happens inside

  /** Whether anything can. */
  private inside(from: Uint32Array, emit: EmitRow): boolean {
    if (this.rows.bounds.prompt === true && this.delivers(from, emit)) return true;
    let any = false;
    for (let a = 0; a < this.rows.size; a++) {
      const facts = this.rows.facts(from, a);
      if (!facts.isOn) continue;
      if (this.rows.storeNews(from, a, facts)) {
        any = true;
        this.begin(from);
        this.askStore(a);
        this.end(emit, () => `store ${a}`);
      }
      for (let b = 0; b < this.rows.size; b++) {
        if (a === b) continue;
        const known = (facts.members & (1 << b)) !== 0;
        const opinion = known ? this.rows.truth(from, a, b) : undefined;
        if (opinion !== undefined && opinion !== facts.opinions[b]) {
          any = true;
          this.begin(from);
          const what = KIND.notice + 16 * (b + 16 * OPINIONS.indexOf(opinion));
          this.act(a, what, (actor) => actor.notice(this.rows.lifeOf(b), opinion));
          this.end(emit, () => `notice ${a} of ${b}`);
        }
        if (!known && this.rows.isRefused(from, a, b)) {
          any = true;
          this.begin(from);
          this.act(b, KIND.refused, (actor) => actor.refused());
          this.end(emit, () => `refuse ${a} to ${b}`);
        }
      }
    }
    if (this.rows.bounds.prompt !== true && this.delivers(from, emit)) any = true;
    return any;
  }

  /** In one order where messages are prompt. */
  private delivers(from: Uint32Array, emit: EmitRow): boolean {
    let any = false;
    for (let a = 0; a < this.rows.size; a++) {
      if (!this.rows.facts(from, a).isOn) continue;
      for (let b = 0; b < this.rows.size; b++) {
        const queue = a === b ? 0 : (from[this.rows.wire(b, a)] as number);
        if (queue === 0 || !this.rows.reaches(from, a, b)) continue;
        any = true;
        this.begin(from);
        const packet = this.queues.first(queue);
        this.row[this.rows.wire(b, a)] = this.queues.rest(queue);
        this.act(a, KIND.deliver + 16 * (b + 16 * packet), (actor) =>
          actor.deliver(this.rows.lifeOf(b), this.queues.packets[packet] as Packet),
        );
        this.end(emit, () => `deliver ${a} from ${b}`);
        if (this.rows.bounds.prompt === true) return true;
      }
    }
    return any;
  }

  // Making the row of a step

  private begin(from: Uint32Array): void {
    this.row.set(from);
  }

  private end(emit: EmitRow, label: () => string): void {
    if (this.forms.forgets) this.forget();
    emit(this.row, label);
  }

  /** Takes off the wires what nobody will ever read. */
  private forget(): void {
    const { row, rows } = this;
    for (let to = 0; to < rows.size; to++)
      for (let from = 0; from < rows.size; from++)
        if (from !== to && row[rows.wire(from, to)] !== 0 && !rows.isRead(row, from, to)) row[rows.wire(from, to)] = 0;
  }

  private askStore(rank: number): void {
    this.act(rank, KIND.askStore, (actor) => actor.askStore());
  }

  private lookAtClaims(rank: number): void {
    if (this.rows.answers(this.row, rank)) this.act(rank, KIND.lookAtClaims, (actor) => actor.lookAtClaims());
  }

  private act(rank: number, event: number, act: Act): void {
    const { row, locals } = this;
    const answers = this.rows.answers(row, rank);
    const down = !answers && this.rows.bounds.down === true && this.rows.reaches(row, rank, this.rows.size);
    const outcome = locals.step(
      row[rank] as number,
      event,
      { answers, down, store: row[this.rows.storeAt] as number },
      act,
    );
    row[rank] = outcome.next;
    if (outcome.store !== undefined) row[this.rows.storeAt] = outcome.store;
    if (outcome.ended) this.drop(rank);
    else this.send(rank, outcome);
    if (!outcome.claimed) return;
    // Whoever has claimed something looks at the claims again and again.
    for (let other = 0; other < this.rows.size; other++)
      if (this.rows.facts(row, other).isOn && this.rows.claims(row, other)) this.lookAtClaims(other);
  }

  private send(rank: number, { sent }: Outcome): void {
    for (let i = 0; i < sent.length; i += 2) {
      const to = sent[i] as number;
      if (!this.rows.facts(this.row, to).alive) continue;
      const wire = this.rows.wire(rank, to);
      this.row[wire] = this.queues.append(this.row[wire] as number, sent[i + 1] as number);
    }
  }

  /** The connections of a worker that is over, and what it has claimed. */
  private drop(rank: number): void {
    const { row, rows } = this;
    const { size } = rows;
    for (let other = 0; other < size; other++)
      if (other !== rank) row[this.rows.wire(rank, other)] = row[this.rows.wire(other, rank)] = 0;
    if (this.rows.claims(row, rank))
      row[this.rows.storeAt] = this.locals.unclaimed(row[this.rows.storeAt] as number, this.rows.lifeOf(rank));
  }
}
