/** @file Profiles of all that a worker serves, which others open: torch's `_server_process_global_profile`. */
import type { AnyFn, WorkerInfo } from '@backwire/rpc';
import type { Server } from '../calls/server.ts';
import type { Body } from '../messages/commands.ts';
import { PyName } from '../values/name.ts';
import { PyInstance } from '../values/objects.ts';
import { rangesOf, type Range } from './ranges.ts';
import { Recorder } from './recorder.ts';

const CLASS = 'torch.distributed.rpc.server_process_global_profiler._server_process_global_profile';
const METHODS = ['__enter__', '__exit__', 'key_averages'];
const UTIL = 'torch.autograd.profiler_util';
const FUNCTION_EVENT = new PyName(UTIL, 'FunctionEvent');
const AVERAGE = new PyName(UTIL, 'FunctionEventAvg');
const EVENT_LIST = new PyName(UTIL, 'EventList');
/** torch's number of an event that is no other worker's. */
const OWN_NODE = -1;
/** Profiles that are open at once: who opens more has forgotten to close them. */
const MAX_OPEN = 64;
/** Operations that one profile keeps. */
const MAX_RANGES = 100_000;

export interface ServerProfilesHost {
  readonly self: WorkerInfo;
  readonly server: Server;
  /** Lets Python call a class by that path. */
  readonly offer: (
    path: string,
    body: AnyFn | (abstract new (...args: never[]) => object),
    methods: readonly string[],
  ) => unknown;
}

/** Lets others profile all that is served here: while one profile is open, every request is recorded. */
export function serveProfiles({ self, server, offer }: ServerProfilesHost): void {
  const profiles = new OpenProfiles(self.id, server);
  class Profile extends ServerProfile {
    constructor(...args: readonly unknown[]) {
      super(profiles, args);
    }
  }
  offer(CLASS, Profile, METHODS);
}

class OpenProfiles {
  readonly node: number;
  private readonly server: Server;
  private readonly open = new Set<ServerProfile>();

  constructor(node: number, server: Server) {
    this.node = node;
    this.server = server;
  }

  /** @throws RangeError */
  enter(profile: ServerProfile): void {
    if (this.open.size >= MAX_OPEN) throw new RangeError(`${MAX_OPEN} profiles are open on this worker already`);
    this.open.add(profile);
    this.server.watch = (run) => this.record(run);
  }

  leave(profile: ServerProfile): void {
    this.open.delete(profile);
    if (this.open.size === 0) this.server.watch = undefined;
  }

  /** Records a request for all profiles that are open when it begins, and still when it ends. */
  private record(run: (profile: Recorder) => Body | Promise<Body>): Body | Promise<Body> {
    const into = [...this.open];
    const recorder = new Recorder({
      node: this.node,
      shapes: into.some(({ shapes }) => shapes),
      memory: false,
    });
    const over = (): void => {
      const ranges = rangesOf(recorder.finish());
      for (const profile of into) if (this.open.has(profile)) profile.take(ranges);
    };
    let answer: Body | Promise<Body>;
    try {
      answer = run(recorder);
    } catch (error) {
      over();
      throw error;
    }
    if (answer instanceof Promise) return answer.finally(over);
    over();
    return answer;
  }
}

/** One profile. Lifetime: *made*, *entered* once, *over*: its events can be asked for then. */
class ServerProfile {
  readonly shapes: boolean;
  /** A list for each request that did something, as Python has them. */
  process_global_function_events: readonly (readonly PyInstance[])[] | undefined;
  private readonly profiles: OpenProfiles;
  private readonly enabled: boolean;
  private readonly requests: (readonly Range[])[] = [];
  private kept = 0;
  private entered = false;

  constructor(profiles: OpenProfiles, args: readonly unknown[]) {
    const last = args.at(-1);
    const options = (typeof last === 'object' && last !== null ? last : {}) as Readonly<Record<string, unknown>>;
    this.profiles = profiles;
    this.enabled = args[0] !== false && options['enabled'] !== false;
    this.shapes = options['record_shapes'] === true;
  }

  /** @throws Error when it was entered before; RangeError */
  __enter__(): null {
    if (!this.enabled) return null;
    if (this.entered) throw new Error('autograd profiler traces are not reentrant');
    this.profiles.enter(this);
    this.entered = true;
    return null;
  }

  __exit__(): false {
    this.profiles.leave(this);
    if (this.enabled)
      this.process_global_function_events = this.requests.map((all) => all.map((one) => this.event(one)));
    return false;
  }

  /** An EventList of averages by name. @throws Error before the profile is over. */
  key_averages(): PyInstance {
    if (this.process_global_function_events === undefined) throw new Error("Profiler didn't finish running");
    const byName = new Map<string, Range[]>();
    for (const range of this.requests.flat()) {
      const same = byName.get(range.name);
      if (same === undefined) byName.set(range.name, [range]);
      else same.push(range);
    }
    return new PyInstance(EVENT_LIST, [[...byName.values()].map((same) => this.average(same))], { made: 'call' });
  }

  /** What a request did. */
  take(ranges: readonly Range[]): void {
    if (ranges.length === 0 || this.kept + ranges.length > MAX_RANGES) return;
    this.kept += ranges.length;
    this.requests.push(ranges);
  }

  private event({ id, name, node, thread, startUs, endUs, shapes }: Range): PyInstance {
    const state = new Map<string, unknown>([
      ['node_id', this.shownNode(node)],
      ['is_remote', node !== this.profiles.node],
      ['is_legacy', true],
      ['input_shapes', this.shapes ? shapes.map((shape) => [...shape]) : []],
    ]);
    return new PyInstance(FUNCTION_EVENT, [id, name, thread, startUs, endUs], { made: 'call', state });
  }

  private average(same: readonly Range[]): PyInstance {
    const [{ name, node }] = same as [Range];
    const sum = (of: (range: Range) => number): number => same.reduce((total, range) => total + of(range), 0);
    const state = new Map<string, unknown>([
      ['key', name],
      ['count', same.length],
      ['node_id', this.shownNode(node)],
      ['is_async', false],
      ['is_remote', node !== this.profiles.node],
      ['cpu_time_total', sum(({ startUs, endUs }) => endUs - startUs)],
      ['self_cpu_time_total', sum(({ selfUs }) => selfUs)],
    ]);
    return new PyInstance(AVERAGE, [], { made: 'call', state });
  }

  private shownNode(node: number): number {
    return node === this.profiles.node ? OWN_NODE : node;
  }
}
