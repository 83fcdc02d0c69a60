/** @file A backward pass over a few workers as a model: production pass machines, every order of messages, one thing going wrong. */
import { replaying, type LiveModel, type Model, type ReplayedState } from '@backwire/testing';
import { Context } from '../src/protocol/context.ts';
import { PassMachine } from '../src/protocol/pass.ts';
import type { PassId } from '../src/protocol/ids.ts';
import type { Failure, Fired, LocalGraph, PassOptions, PassPort, Reply } from '../src/protocol/pass-types.ts';
import { beyond, FakeGraph, type Graph, type GraphOptions } from './graphs.ts';

export interface Bounds extends GraphOptions {
  /** By worker, from a start ('roots' or a send function's number) to the receive functions it leads to. */
  readonly graph: readonly Graph[];
  /** What `graph` has become when the second pass begins: calls were made in between. */
  readonly later?: readonly Graph[];
  /** Workers that begin passes. @default [0] */
  readonly origins?: readonly number[];
  /** How many passes each origin starts, one after the other. @default 1 */
  readonly passes?: number;
  /** An origin gives one of them up at any time. */
  readonly timeout?: boolean;
  /** An origin has one pass that cannot begin, before those it starts, between them or after them. */
  readonly refuses?: boolean;
  /** A worker that may die at any time. */
  readonly mayDie?: number;
  readonly fast?: boolean;
  /** A worker that says once, at any time and to everybody, that a pass far ahead of the first origin's failed. */
  readonly lies?: number;
}

type Ctx = Context<object, object>;

interface InFlight {
  readonly label: string;
  readonly from: number;
  readonly to: number;
  /** Control: what was sent after it on its link is not delivered before it. */
  readonly prompt: boolean;
  deliver(): void;
}

class Machine implements PassPort<null, Ctx> {
  readonly context = new Context<object, object>({ worker: 0, incarnation: 1, local: 0 });
  readonly passes: PassMachine<null, Ctx>;
  readonly outcomes: string[] = [];
  /** Passes whose gradients are here. */
  readonly added = new Set<string>();
  /** Passes that began here and were told to have succeeded. */
  readonly succeeded: string[] = [];
  alive = true;
  readonly heard = new Set<number>();
  started = 0;
  gaveUp = false;
  lied = false;
  /** The number of the pass that could not begin. */
  refused: number | undefined;
  /** Whether it heard, of a pass of which nothing came here, that it failed. */
  missing = false;
  /** The last pass that came here. */
  latest = 0;
  private readonly world: World;
  private readonly id: number;

  constructor(world: World, id: number, graphs: readonly Graph[]) {
    this.world = world;
    this.id = id;
    this.passes = new PassMachine({ worker: id, incarnation: 1 }, this);
    this.record(graphs);
  }

  /** Has the functions of all calls so far. */
  record(graphs: readonly Graph[]): void {
    const { context, id } = this;
    for (const [start, targets] of Object.entries(graphs[id] as Graph)) {
      if (start !== 'roots') context.addSend(Number(start), {});
      for (const { to, message } of targets) {
        if (context.recvs.get(to)?.has(message) !== true) context.addRecv(to, message, {});
        context.known.set(to, 1);
      }
    }
    // Who sent tensors knows to whom.
    graphs.forEach((other, worker) => {
      if (Object.values(other).some((targets) => targets.some(({ to }) => to === id))) context.known.set(worker, 1);
    });
  }

  discover(to: number, token: number, _c: Ctx, pass: PassId, messages: readonly number[], options: PassOptions): void {
    this.world.ask(this.id, to, token, `D${nameOf(pass)} ${messages.join()}`, (reply) => {
      const there = this.world.machine(to);
      there.passes.onDiscover(there.context, pass, messages, options, { worker: this.id, reply });
    });
  }

  backwardTo({ to, message, grads }: Fired<null>, token: number, _c: Ctx, pass: PassId, options: PassOptions): void {
    this.world.ask(this.id, to, token, `B${nameOf(pass)} ${message}`, (reply) => {
      const there = this.world.machine(to);
      there.passes.onBackward(there.context, pass, message, grads, options, { worker: this.id, reply });
    });
  }

  abort(to: number, _c: Ctx, pass: PassId, failure: Failure): void {
    if (this.heard.has(to)) return;
    this.world.send(this.id, to, true, `A${nameOf(pass)}`, () => {
      const there = this.world.machine(to);
      there.passes.onAbort(there.context, { worker: this.id, incarnation: 1 }, pass, failure);
    });
  }

  missed(): void {
    this.missing = true;
  }

  open(_c: Ctx, pass: PassId, { failed }: PassOptions): LocalGraph<null> {
    this.latest = pass.n;
    for (const n of failed) this.added.delete(nameOf({ ...pass, n }));
    const { bounds } = this.world;
    return new FakeGraph(bounds, graphsOf(bounds, pass.n), this.id, () => this.added.add(nameOf(pass)));
  }

  rollback(_c: Ctx, pass: PassId): boolean {
    return this.added.delete(nameOf(pass));
  }

  settled(_c: Ctx, pass: PassId, failure?: Failure): void {
    this.outcomes.push(failure === undefined ? 'done' : 'failed');
    if (failure === undefined) this.succeeded.push(nameOf(pass));
  }
}

function nameOf(pass: PassId): string {
  return `${pass.worker}.${pass.n}`;
}

/** All workers and what is between them. */
class World {
  readonly bounds: Bounds;
  readonly machines: Machine[];
  readonly inFlight: InFlight[] = [];
  /** Requests that were delivered and not answered. */
  readonly unanswered = new Map<string, { from: number; to: number; token: number }>();
  wrong: string | undefined;

  constructor(bounds: Bounds) {
    this.bounds = bounds;
    this.machines = bounds.graph.map((_, id) => new Machine(this, id, bounds.graph));
  }

  machine(id: number): Machine {
    return this.machines[id] as Machine;
  }

  send(from: number, to: number, prompt: boolean, what: string, deliver: () => void): void {
    const label = `${from}>${to} ${what}`;
    if (this.machine(to).alive) this.inFlight.push({ label, from, to, prompt, deliver });
  }

  /** Links keep order, but calls wait for credit and for their tensors, and answers settle promises: only control is never overtaken. */
  *deliverable(): Generator<InFlight> {
    const held = new Set<string>();
    for (const message of this.inFlight) {
      const link = `${message.from}>${message.to}`;
      if (held.has(link)) continue;
      if (message.prompt) held.add(link);
      yield message;
    }
  }

  ask(from: number, to: number, token: number, what: string, serve: (reply: Reply) => void): void {
    const label = `${from}>${to} ${what}`;
    const { passes, heard } = this.machine(from);
    // The link to a worker that is known to be dead fails by itself.
    if (heard.has(to))
      return void this.inFlight.push({
        label: `${label} refused`,
        from,
        to: from,
        prompt: false,
        deliver: () => passes.onNack(token, DIED),
      });
    this.unanswered.set(label, { from, to, token });
    this.send(from, to, false, what, () => {
      let answered = false;
      // Who died since is let in no more, and needs no answer.
      if (!this.machine(to).context.known.has(from) && this.machine(from).alive)
        this.wrong = `${label} came from a stranger`;
      serve((failure, back = []) => {
        if (answered) this.wrong = `${label} was answered twice`;
        answered = true;
        this.unanswered.delete(label);
        const returned = back.map(({ message }) => ` ${message}`).join('');
        this.send(to, from, false, `${what} ${failure === undefined ? `ok${returned}` : 'failed'}`, () => {
          if (failure === undefined) passes.onAck(token, back as Fired<null>[]);
          else passes.onNack(token, failure);
        });
      });
    });
  }

  kill(id: number): void {
    this.machine(id).alive = false;
    for (let i = this.inFlight.length - 1; i >= 0; i--) {
      const { from, to } = this.inFlight[i] as InFlight;
      if (from === id || to === id) this.inFlight.splice(i, 1);
    }
  }

  /** What the session does at a change of the view. */
  hear(id: number, dead: number): void {
    const machine = this.machine(id);
    machine.heard.add(dead);
    machine.passes.died({ worker: dead, incarnation: 1 });
    for (const [label, { from, to, token }] of [...this.unanswered]) {
      if (from !== id || to !== dead) continue;
      this.unanswered.delete(label);
      machine.passes.onNack(token, DIED);
    }
    const { context } = machine;
    const known = context.known.has(dead);
    if (known || context.pass?.id.worker === dead) machine.passes.abort(context, DIED);
    context.known.delete(dead);
    if (!known || id === CREATOR || dead === CREATOR) return;
    this.send(id, CREATOR, true, 'adopt', () => {
      const creator = this.machine(CREATOR);
      creator.passes.meet(creator.context, { worker: id, incarnation: 1 });
    });
    machine.passes.meet(context, { worker: CREATOR, incarnation: 1 });
  }
}

/** More than the passes that there ever are. */
const FAR_AHEAD = 99;

/** The worker whose context it is. */
const CREATOR = 0;

const DIED: Failure = { code: 'peer-died', name: 'RpcError', text: 'died' };
const LATE: Failure = { code: 'deadline-exceeded', name: 'RpcError', text: 'late' };

/** The model of one set of bounds. */
export function passModel(bounds: Bounds): Model<ReplayedState> {
  const origins = bounds.origins ?? [0];
  const live: LiveModel<World> = {
    name: 'backward pass',
    create: () => new World(bounds),
    actions: (world) => {
      const actions = [...new Set([...world.deliverable()].map(({ label }) => label))];
      for (const origin of origins) {
        const machine = world.machine(origin);
        if (machine.alive && machine.started === machine.outcomes.length && machine.started < (bounds.passes ?? 1))
          actions.push(`start ${origin}`);
        if (bounds.refuses === true && machine.alive && machine.refused === undefined)
          if (machine.started === machine.outcomes.length) actions.push(`refuse ${origin}`);
        if (bounds.timeout === true && machine.alive && machine.started > machine.outcomes.length && !machine.gaveUp)
          actions.push(`give up ${origin}`);
      }
      const { mayDie, lies } = bounds;
      if (lies !== undefined && !world.machine(lies).lied) actions.push(`lie ${lies}`);
      if (mayDie !== undefined && world.machine(mayDie).alive && world.machine(origins[0] as number).started > 0)
        actions.push(`kill ${mayDie}`);
      if (mayDie !== undefined && !world.machine(mayDie).alive) {
        world.machines.forEach((machine, id) => {
          if (machine.alive && !machine.heard.has(mayDie)) actions.push(`${id} hears of ${mayDie}`);
        });
      }
      return actions;
    },
    apply: (world, action) => {
      for (const message of world.deliverable()) {
        if (message.label !== action) continue;
        world.inFlight.splice(world.inFlight.indexOf(message), 1);
        return message.deliver();
      }
      const words = action.split(' ');
      const last = Number(words.at(-1));
      const machine = world.machine(last);
      if (words[0] === 'start') {
        machine.started++;
        if (machine.started === 2 && bounds.later !== undefined)
          for (const each of world.machines) each.record(bounds.later);
        try {
          machine.passes.start(machine.context, undefined, { retainGraph: true, fast: bounds.fast ?? false });
        } catch {
          machine.outcomes.push('failed');
        }
      } else if (words[0] === 'refuse') {
        // Each takes a number, whether it begins or not.
        machine.refused = machine.started + 1;
        machine.passes.refuse(machine.context, LATE);
      } else if (words[0] === 'give') {
        machine.gaveUp = true;
        machine.passes.abort(machine.context, LATE);
      } else if (words[0] === 'lie') {
        machine.lied = true;
        const ahead: PassId = { worker: origins[0] as number, incarnation: 1, n: FAR_AHEAD };
        world.machines.forEach((_, to) => to !== last && machine.abort(to, machine.context, ahead, LATE));
      } else if (words[0] === 'kill') world.kill(last);
      else world.hear(Number(words[0]), last);
    },
    encode: (world) =>
      JSON.stringify([linksOf(world.inFlight), [...world.unanswered.keys()].sort(), world.machines.map(stateOf)]),
    invariant: (world) =>
      world.wrong ??
      world.machines
        .map(({ outcomes, started }, id) => (outcomes.length > started ? `${id} settled twice` : undefined))
        .find((text) => text !== undefined),
    terminal: (world) => endOf(world, origins),
  };
  return replaying(live);
}

/** What is on each link, without the order of what may be delivered in any order. */
function linksOf(inFlight: readonly InFlight[]): string[] {
  const prompts = new Map<string, number>();
  return inFlight
    .map(({ label, from, to, prompt }) => {
      const link = `${from}>${to}`;
      const after = prompts.get(link) ?? 0;
      if (prompt) prompts.set(link, after + 1);
      return `${after}${prompt ? '!' : ''} ${label}`;
    })
    .sort();
}

function stateOf(machine: Machine): unknown {
  const { context, outcomes, added, alive, heard, started, gaveUp, lied, passes, refused, missing, latest } = machine;
  const { pass } = context;
  const state = pass && [
    pass.id.worker,
    pass.phase,
    [...pass.left].sort(),
    [...pass.marked].sort(),
    pass.deficit,
    pass.parent !== undefined,
    [...pass.told.keys()].sort(),
  ];
  const { ended, failed, unspread, aborted, known } = context;
  return [
    state,
    aborted.map(nameOf),
    [...known.keys()].sort(),
    ended.describe(),
    failed,
    unspread?.n,
    outcomes,
    [...added].sort(),
    alive,
    [...heard],
    started,
    gaveUp,
    lied,
    passes.active,
    refused,
    missing,
    latest,
  ];
}

/** Everything has settled: every origin knows, nobody is in a pass, and gradients are everywhere or nowhere. */
function endOf({ machines, unanswered, bounds }: World, origins: readonly number[]): string | undefined {
  const alive = machines.filter((machine) => machine.alive);
  const busy = alive.filter(({ passes, context }) => passes.active > 0 || context.pass !== undefined);
  if (busy.length > 0) return `${busy.length} workers are still in a pass`;
  if (origins.some((id) => machines[id]?.alive === true && machines[id].outcomes.length !== (bounds.passes ?? 1)))
    return 'an origin was never told';
  const open = [...unanswered.entries()].filter(
    ([, { from, to }]) => machines[from]?.alive === true && machines[to]?.alive === true,
  );
  const refused = origins.length === 1 ? machines[origins[0] as number]?.refused : undefined;
  const unaware = alive.findIndex(
    ({ missing, latest, context }, id) =>
      context.known.size > 0 && !origins.includes(id) && !missing && latest < (refused ?? 0),
  );
  if (unaware >= 0 && alive.length === machines.length) return `${unaware} never heard of a pass that could not begin`;
  if (open.length > 0) return `never answered: ${open.map(([label]) => label).join('; ')}`;
  const overridden = lostForNothing(machines, origins, bounds);
  if (overridden !== undefined) return overridden;
  // An origin that died may have been done or not; with its creator a context is over.
  if ([CREATOR, ...origins].some((id) => machines[id]?.alive !== true)) return undefined;
  const done = machines.flatMap(({ succeeded }) => succeeded).sort();
  const due = (worker: number): string => done.filter((pass) => takesPart(bounds, pass, worker)).join();
  const seen = machines.map(({ added }) => [...added].sort().join());
  if (machines.every(({ alive }, id) => !alive || seen[id] === due(id))) return undefined;
  return `passes ${done.join() || 'none'} succeeded, but these were added: ${seen.map((text) => text || 'none').join('; ')}`;
}

/** Whether a pass comes to a worker. */
function takesPart(bounds: Bounds, pass: string, worker: number): boolean {
  const [origin, n] = pass.split('.').map(Number) as [number, number];
  const graphs = graphsOf(bounds, n);
  const roots = graphs[origin]?.['roots'] ?? [];
  return (
    worker === origin || roots.some((target) => [target, ...beyond(graphs, target)].some(({ to }) => to === worker))
  );
}

/** The calls that have been made when the pass of this number begins. */
function graphsOf(bounds: Bounds, n: number): readonly Graph[] {
  return n > 1 ? (bounds.later ?? bounds.graph) : bounds.graph;
}

/** The passes of the origin with the lowest id give way to nobody: each is done, but for one that was given up. */
function lostForNothing(machines: readonly Machine[], origins: readonly number[], bounds: Bounds): string | undefined {
  if (bounds.mayDie !== undefined || bounds.breaks !== undefined) return undefined;
  const first = Math.min(...origins);
  const { outcomes, gaveUp } = machines[first] as Machine;
  const failed = outcomes.filter((outcome) => outcome === 'failed').length;
  return failed > (gaveUp ? 1 : 0) ? `${failed} passes of ${first} failed, which nobody may override` : undefined;
}
