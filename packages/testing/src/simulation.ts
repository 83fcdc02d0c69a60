/** @file One simulated run: nodes over a virtual clock and network, scheduled faults, invariants, and a hash of what happened. */
import { VirtualClock } from './clock.ts';
import { calm, type Fault, type LinkRates } from './faults.ts';
import { SimNetwork } from './network.ts';
import { Random } from './random.ts';
import { SimNodeHost, type NodeFactory } from './sim-node.ts';
import { Trace } from './trace.ts';

/** Settings of a run; everything random comes from `seed`. */
export interface SimulationOptions {
  readonly seed: number | string;
  /** Rates of all links during the safety phase. @default calm */
  readonly rates?: LinkRates;
  /** Chance that a `buggify` point fires. @default 0 */
  readonly buggify?: number;
  /** Largest clock drift of a node, as a share. @default 0 */
  readonly drift?: number;
  /** Faults applied during the safety phase. @default none */
  readonly faults?: readonly Fault[];
}

/** How long a run takes. */
export interface RunOptions {
  /** Virtual milliseconds in which faults happen. */
  readonly safetyMs: number;
  /** Virtual milliseconds after healing within which `done` must become true. */
  readonly livenessMs: number;
  /** True once everything has settled; checked after every event of the liveness phase. @default no event is left */
  readonly done?: () => boolean;
  /** What is still open, for the failure message. */
  readonly describe?: () => string;
  /** Events after which a run counts as livelocked. @default 5 million */
  readonly maxEvents?: number;
}

/** What a run did. Equal seeds give equal hashes. */
export interface RunResult {
  readonly events: number;
  readonly virtualMs: number;
  readonly hash: string;
}

/** An invariant: returns what is wrong, or nothing. */
export type Check = () => string | undefined;

/** A broken invariant or an exception inside a run, with the seed and the last events. */
export class SimulationFailure extends Error {
  readonly seed: string;
  /** Virtual milliseconds. */
  readonly time: number;
  /** Events run before the failure. */
  readonly events: number;
  /** Which invariant broke, without times and seeds: two failures of one kind are the same bug to the shrinker. */
  readonly rule: string;

  constructor(rule: string, detail: string, simulation: Simulation, cause?: unknown) {
    const { seed, trace, clock } = simulation;
    const head = `${rule}: ${detail}\n  at ${clock.now.toFixed(3)} virtual ms, event ${trace.events}, seed ${seed}`;
    super(`${head}\n  last events:\n${trace.tail()}`, { cause });
    this.name = 'SimulationFailure';
    this.seed = seed;
    this.time = clock.now;
    this.events = trace.events;
    this.rule = rule;
  }
}

/** Microtask hops after an event that let awaits of user code settle; a deeper chain continues with the next event. */
const MICROTASK_HOPS = 32;

/** A run of nodes under faults; see `run`. */
export class Simulation {
  readonly seed: string;
  readonly random: Random;
  readonly clock = new VirtualClock();
  readonly network: SimNetwork;
  readonly trace = new Trace();
  readonly #options: SimulationOptions;
  readonly #nodes = new Map<string, SimNodeHost>();
  readonly #always: [string, Check][] = [];
  readonly #finally: [string, Check][] = [];
  #healed = false;

  constructor(options: SimulationOptions) {
    this.#options = options;
    this.random = new Random(options.seed);
    this.seed = this.random.seed;
    this.network = new SimNetwork(this.clock, this.random.split('network'));
    this.network.rates = options.rates ?? calm;
    for (const fault of options.faults ?? []) this.#schedule(fault);
  }

  /** True once faults have stopped. */
  get healed(): boolean {
    return this.#healed;
  }

  /** Adds a node and starts its first incarnation. */
  addNode(name: string, factory: NodeFactory): SimNodeHost {
    if (this.#nodes.has(name)) throw new Error(`node ${name} exists`);
    const host = new SimNodeHost(name, factory, {
      network: this.network,
      random: this.random.split(`node ${name}`),
      buggify: (random) => !this.#healed && random.chance(this.#options.buggify ?? 0),
      drift: this.#options.drift ?? 0,
      record: (what) => this.record(what),
    });
    this.#nodes.set(name, host);
    host.start();
    return host;
  }

  /** The node of that name. */
  node(name: string): SimNodeHost {
    const host = this.#nodes.get(name);
    if (host === undefined) throw new Error(`no node ${name}`);
    return host;
  }

  /** Names of all nodes, up or down. */
  get names(): string[] {
    return [...this.#nodes.keys()];
  }

  /** Checks `check` after every event. */
  invariant(rule: string, check: Check): void {
    this.#always.push([rule, check]);
  }

  /** Checks `check` once, when the run is done. */
  atEnd(rule: string, check: Check): void {
    this.#finally.push([rule, check]);
  }

  /** Notes something that happened: it enters the event hash and the trace. */
  record(what: string): void {
    this.trace.note(this.clock.now, what);
  }

  /** Fails the run now; for oracles that see a wrong result inside an event. */
  fail(rule: string, detail: string): never {
    throw new SimulationFailure(rule, detail, this);
  }

  /** Stops all faults: links become calm and open, paused nodes go on, crashed ones stay as they are. */
  heal(): void {
    this.#healed = true;
    this.network.rates = calm;
    this.network.heal();
    for (const host of this.#nodes.values()) host.resume();
    this.record('heal');
  }

  /** Runs the safety phase, heals, runs the liveness phase and checks the end. Node code must be synchronous. */
  run(options: RunOptions): RunResult {
    for (const _ of this.#events(options)) void _;
    return this.#finish();
  }

  /** The same for node code that awaits: microtasks run after each event. */
  async runAsync(options: RunOptions): Promise<RunResult> {
    for (const _ of this.#events(options)) {
      for (let hop = 0; hop < MICROTASK_HOPS; hop++) await Promise.resolve();
    }
    return this.#finish();
  }

  *#events(options: RunOptions): Generator<void> {
    const end = this.clock.now + options.safetyMs;
    const most = options.maxEvents ?? 5_000_000;
    while (this.#step(end, most)) yield;
    this.clock.advanceTo(end);
    this.#guard('heal', () => this.heal());
    yield;
    const last = this.clock.now + options.livenessMs;
    const done = options.done ?? (() => this.clock.pending === 0);
    while (!this.#guard('done', done)) {
      if (!this.#step(last, most)) {
        const open = options.describe?.() ?? `${this.clock.pending} events are left`;
        throw new SimulationFailure('liveness', `not settled ${options.livenessMs} ms after healing: ${open}`, this);
      }
      yield;
    }
  }

  #step(limit: number, most: number): boolean {
    const ran = this.#guard('event', () => this.clock.step(limit));
    if (ran === undefined) return false;
    this.trace.event(ran.time, ran.label);
    if (this.trace.events > most) throw new SimulationFailure('livelock', `more than ${most} events`, this);
    for (const [rule, check] of this.#always) this.#check(rule, check);
    return true;
  }

  #finish(): RunResult {
    for (const [rule, check] of this.#finally) this.#check(rule, check);
    return { events: this.trace.events, virtualMs: this.clock.now, hash: this.trace.hash };
  }

  #check(rule: string, check: Check): void {
    const wrong = this.#guard(rule, check);
    if (wrong !== undefined) throw new SimulationFailure(rule, wrong, this);
  }

  #guard<T>(rule: string, action: () => T): T {
    try {
      return action();
    } catch (error) {
      if (error instanceof SimulationFailure) throw error;
      const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
      throw new SimulationFailure(`exception in ${rule}`, text, this, error);
    }
  }

  #schedule(fault: Fault): void {
    this.clock.at(fault.at, `fault ${fault.kind}`, () => {
      if (!this.#healed) this.#apply(fault);
    });
  }

  #apply(fault: Fault): void {
    const later = (ms: number, action: () => void): void => {
      // Healing undoes partitions and pauses itself; undoing them twice would open a block that is not ours.
      this.clock.after(ms, `end ${fault.kind}`, () => {
        if (!this.#healed) action();
      });
    };
    switch (fault.kind) {
      case 'partition': {
        const inside = new Set(fault.nodes);
        const cut = this.names
          .flatMap((a) => this.names.map((b) => [a, b] as const))
          .filter(([a, b]) => {
            const outward = inside.has(a) && !inside.has(b);
            return outward || (fault.symmetric && inside.has(b) && !inside.has(a));
          });
        for (const [a, b] of cut) this.network.block(a, b);
        return later(fault.forMs, () => cut.forEach(([a, b]) => this.network.unblock(a, b)));
      }
      case 'crash': {
        const host = this.node(fault.node);
        host.crash();
        // A restart is repair, not a fault: it happens even after healing.
        if (fault.restartAfterMs !== undefined) {
          this.clock.after(fault.restartAfterMs, `restart ${fault.node}`, () => host.start());
        }
        return undefined;
      }
      case 'pause':
        this.node(fault.node).pause();
        return later(fault.forMs, () => this.node(fault.node).resume());
      case 'reset':
        return this.network.reset(fault.from, fault.to);
      case 'clog':
        this.network.link(fault.from, fault.to).cloggedUntil = this.clock.now + fault.forMs;
        return undefined;
      case 'clock-jump':
        return this.node(fault.node).jump(fault.byMs);
    }
  }
}
