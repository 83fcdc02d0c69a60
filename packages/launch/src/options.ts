/** @file What a launch may be told. */
import type { Writable } from 'node:stream';
import type { StreamsOf } from './output-spec.ts';
import type { StartedWorker } from './worker-process.ts';

/** What a group is started with; all but `program` is optional. Times are milliseconds. */
export interface LaunchOptions {
  /** The program every worker runs; relative to `cwd`. TypeScript runs as it is. */
  program: string;
  /** Its arguments. */
  args?: readonly string[];
  /** Workers on this host. @default 1 */
  processes?: number;
  /** Hosts in the group, or the most of them. @default 1 */
  nodes?: number;
  /** The fewest hosts that will do: the group may grow up to `nodes` and shrink down to this while it runs. @default nodes */
  minNodes?: number;
  /**
   * What a change of the hosts means. 'static': all workers start again, with new ranks. 'dynamic': the others run on; newcomers and
   * replacements of failed workers get ranks never given before. @default 'static'
   */
  membership?: 'static' | 'dynamic';
  /** This host's number; without one, hosts get numbers in the order they come. */
  nodeRank?: number;
  /** How long to wait for enough hosts, in milliseconds. @default 600000 */
  joinTimeoutMs?: number;
  /** How long to wait for more hosts once there are enough, in milliseconds. @default 5000 */
  lastCallMs?: number;
  /**
   * Where hosts meet. 'hosted': in a store that one of the launchers serves at the master address; 'etcd', 'redis': in that server, so
   * that any launcher may die. @default 'hosted'
   */
  rendezvous?: 'hosted' | 'etcd' | 'redis';
  /**
   * The address of that etcd or Redis in place of `masterAddr` and `masterPort`, for what these do not say: TLS, several servers, a
   * database, a user. `'etcds://a:2379,b:2379'`, `'rediss://user:password@host:6380/0'`. The workers are given it; messages leave the
   * user out.
   */
  rendezvousStore?: string;
  /** The address of this host that the others reach. @default the one from which the master address is reached */
  localAddr?: string;
  /** This launcher's part of the workers of its machine, when another program starts several launchers on it. @default all */
  local?: { readonly first: number; readonly size: number };
  /** Where the group's store is. @default '127.0.0.1' */
  masterAddr?: string;
  /** Its port; 0 = any free one (on one host only). @default 0 */
  masterPort?: number;
  /** Names the run. @default a random one */
  runId?: string;
  /** The ROLE_NAME of the workers. @default 'default' */
  role?: string;
  /** How often a failed group is started again. @default 0 */
  maxRestarts?: number;
  /** Between SIGTERM and SIGKILL when the group is stopped, in milliseconds; Infinity = never SIGKILL. @default 3000 */
  stopGraceMs?: number;
  /** More variables for every worker. */
  env?: Readonly<Record<string, string>>;
  /** What a worker is called in prefixes and messages. @default rank => `rank${rank}` */
  label?: (rank: number) => string;
  /** Ranks whose standard output is this process's own, unprefixed, so that they see the terminal. @default none */
  inherit?: readonly number[];
  /** Which local ranks are shown on the console. @default all */
  shown?: (localRank: number) => boolean;
  /** Output that goes to files instead of the console. @default none */
  redirects?: StreamsOf;
  /** Output that goes to files as well. @default none */
  tee?: StreamsOf;
  /** Where those files go: `<logDir>/<runId>/attempt_<n>/<rank>/stdout.log`, which are appended to. Needed with `redirects` or `tee`. */
  logDir?: string;
  /** Where the workers' standard output goes, a line at a time behind their labels. @default process.stdout */
  stdout?: Writable;
  /** Where their standard error goes, and what the launcher itself has to say. @default process.stderr */
  stderr?: Writable;
  /** Signals of this process that are passed on and end the run. @default SIGTERM, SIGINT, SIGHUP, SIGQUIT */
  signals?: readonly NodeJS.Signals[];
  /** Stops the group. */
  signal?: AbortSignal;
  /** The program is an executable of its own, not one for node. @default false */
  native?: boolean;
  /** Flags for node. @default those of this process, without the debugger's */
  execArgv?: readonly string[];
  /** Where the workers run. @default process.cwd() */
  cwd?: string;
  /**
   * Told of the address of the group each time its workers start: for `store`, `backwire inspect` and `backwire dashboard`. What it throws
   * or rejects with stops the group, and `launch` fails with it; it is not waited for.
   */
  onGroup?: (address: string) => void;
  /** Told of every worker that starts. What it throws or rejects with stops the group, and `launch` fails with it; it is not waited for. */
  onStart?: (worker: StartedWorker) => void;
}
