/** @file A simulated process: incarnations, timers that die or wait with it, a drifting clock, crash, restart and pause. */
import type { Scheduled } from './clock.ts';
import type { End } from './connection.ts';
import type { SimNetwork } from './network.ts';
import type { Random } from './random.ts';

/** What a node's code may do; the only way to time, chance and the network. */
export interface NodeEnv {
  readonly name: string;
  /** 1 for the first start, one more after each restart. */
  readonly incarnation: number;
  /** A stream of this incarnation's own. */
  readonly random: Random;
  /** The node's clock in milliseconds; it may drift and jump. */
  now(): number;
  /** Runs once unless cancelled; a crash cancels it, a pause delays it. */
  setTimer(delayMs: number, label: string, action: () => void): Scheduled;
  /** Sends a datagram. */
  send(to: string, message: unknown): void;
  /** Dials a connection; assign the end's handlers at once. */
  connect(to: string): End;
  /** True when the simulation wants the rare path taken; always false after healing. */
  buggify(tag: string): boolean;
  /** Notes something in the trace and the event hash. */
  record(what: string): void;
}

/** What a node's code gives back. */
export interface SimNode {
  onDatagram?(from: string, message: unknown): void;
  onConnection?(end: End): void;
}

/** Starts one incarnation. */
export type NodeFactory = (env: NodeEnv) => SimNode;

/** What a host needs of its simulation. */
export interface HostPort {
  readonly network: SimNetwork;
  readonly random: Random;
  readonly drift: number;
  buggify(random: Random): boolean;
  record(what: string): void;
}

/** The machine under a node; it survives crashes. */
export class SimNodeHost {
  readonly name: string;
  readonly #factory: NodeFactory;
  readonly #port: HostPort;
  readonly #rate: number;
  readonly #timers = new Set<Scheduled>();
  #overdue: (() => void)[] = [];
  #offset = 0;
  #incarnation = 0;
  #state: 'down' | 'up' | 'paused' = 'down';

  constructor(name: string, factory: NodeFactory, port: HostPort) {
    this.name = name;
    this.#factory = factory;
    this.#port = port;
    this.#rate = 1 + (port.random.split('drift').float() * 2 - 1) * port.drift;
  }

  get incarnation(): number {
    return this.#incarnation;
  }

  get state(): 'down' | 'up' | 'paused' {
    return this.#state;
  }

  /** Starts the next incarnation; ignored while up. */
  start(): void {
    if (this.#state !== 'down') return;
    this.#incarnation++;
    this.#state = 'up';
    this.#port.record(`start ${this.name}#${this.#incarnation}`);
    const node = this.#factory(this.#env(this.#incarnation));
    this.#port.network.attach(this.name, node.onDatagram?.bind(node), node.onConnection?.bind(node));
  }

  /** Loses all state at once; ignored while down. */
  crash(): void {
    if (this.#state === 'down') return;
    this.#state = 'down';
    this.#port.record(`crash ${this.name}#${this.#incarnation}`);
    for (const timer of this.#timers) timer.cancel();
    this.#timers.clear();
    this.#overdue = [];
    this.#port.network.detach(this.name);
  }

  /** Stops the process as SIGSTOP does: state stays, messages and timers wait. */
  pause(): void {
    if (this.#state !== 'up') return;
    this.#state = 'paused';
    this.#port.record(`pause ${this.name}`);
    this.#port.network.pause(this.name);
  }

  /** Lets a paused process go on: timers that came due run first, as an event loop does. */
  resume(): void {
    if (this.#state !== 'paused') return;
    this.#state = 'up';
    this.#port.record(`resume ${this.name}`);
    const overdue = this.#overdue;
    this.#overdue = [];
    for (const action of overdue) action();
    if (this.state !== 'up') return;
    this.#port.network.resume(this.name);
  }

  /** Moves the node's clock. */
  jump(byMs: number): void {
    this.#offset += byMs;
  }

  #env(incarnation: number): NodeEnv {
    const port = this.#port;
    const random = port.random.split(incarnation);
    const bugs = new Map<string, Random>();
    const alive = (): boolean => this.#state !== 'down' && this.#incarnation === incarnation;
    return {
      name: this.name,
      incarnation,
      random,
      now: () => port.network.clock.now * this.#rate + this.#offset,
      setTimer: (delayMs, label, action) => this.#setTimer(incarnation, delayMs, label, action),
      send: (to, message) => {
        if (alive()) port.network.send(this.name, to, message);
      },
      connect: (to) => {
        if (!alive()) throw new Error(`${this.name}#${incarnation} is down`);
        return port.network.connect(this.name, to);
      },
      buggify: (tag) => {
        let stream = bugs.get(tag);
        if (stream === undefined) bugs.set(tag, (stream = random.split(`buggify ${tag}`)));
        return port.buggify(stream);
      },
      record: (what) => port.record(`${this.name}: ${what}`),
    };
  }

  #setTimer(incarnation: number, delayMs: number, label: string, action: () => void): Scheduled {
    if (this.#incarnation !== incarnation || this.#state === 'down') return dead;
    const clock = this.#port.network.clock;
    let cancelled = false;
    const timer = clock.after(delayMs / this.#rate, `${this.name} ${label}`, () => {
      this.#timers.delete(scheduled);
      if (this.#state === 'paused') {
        this.#overdue.push(() => {
          if (!cancelled) action();
        });
      } else action();
    });
    const scheduled: Scheduled = {
      time: timer.time,
      label,
      cancel: () => {
        cancelled = true;
        this.#timers.delete(scheduled);
        timer.cancel();
      },
    };
    this.#timers.add(scheduled);
    return scheduled;
  }
}

const dead: Scheduled = { time: Infinity, label: 'never', cancel: () => undefined };
