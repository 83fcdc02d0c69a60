/** @file Where this launcher stands when a scheduler started it: Slurm's and Kubernetes' variables. Pure. */
import { UsageError } from './errors.ts';
import { MAX_HOSTS } from './limits.ts';

/** What a scheduler says, for flags that were not given. */
export interface Scheduler {
  readonly name: 'slurm' | 'kubernetes';
  /** Launchers in the group; undefined when it does not say. */
  readonly nodes: number | undefined;
  readonly nodeRank: number;
  /** Where launcher 0 is; undefined when it does not say. */
  readonly masterAddr: string | undefined;
  /** This launcher's part of the workers of its machine, when there are several on it. */
  readonly local: { readonly first: number; readonly size: number } | undefined;
}

/**
 * Reads the environment of a step of Slurm (`srun backwire run …`: one launcher a task) or of an indexed job of Kubernetes (one launcher a
 * pod); undefined elsewhere, and in a batch script of Slurm outside `srun`, which runs once.
 *
 * @param hostsFile the text of /etc/hosts: in a pod it has the pod's full name.
 * @throws UsageError when a variable is not what it should be.
 */
export function findScheduler(env: NodeJS.ProcessEnv, processes: number, hostsFile: string): Scheduler | undefined {
  if (set(env['SLURM_STEP_ID']) && set(env['SLURM_PROCID'])) return slurm(env, processes);
  if (set(env['JOB_COMPLETION_INDEX'])) return kubernetes(env, hostsFile);
  return undefined;
}

function slurm(env: NodeJS.ProcessEnv, processes: number): Scheduler {
  const nodes = count(env, 'SLURM_STEP_NUM_TASKS') ?? count(env, 'SLURM_NTASKS') ?? 1;
  const nodeRank = count(env, 'SLURM_PROCID') ?? 0;
  const list = first(env, 'SLURM_STEP_NODELIST', 'SLURM_JOB_NODELIST', 'SLURM_NODELIST');
  const masterAddr = list === undefined || list.text === '' ? undefined : expandHosts(list.text, 1, list.name)[0];
  const tasks = tasksOn(env);
  const local = { first: (count(env, 'SLURM_LOCALID') ?? 0) * processes, size: tasks * processes };
  return { name: 'slurm', nodes, nodeRank, masterAddr, local: tasks > 1 ? local : undefined };
}

/** '2(x3),1' is two tasks on each of three nodes, then one: those of this node. */
function tasksOn(env: NodeJS.ProcessEnv): number {
  const { name, text } = first(env, 'SLURM_STEP_TASKS_PER_NODE', 'SLURM_TASKS_PER_NODE') ?? { name: '', text: '1' };
  let node = count(env, 'SLURM_NODEID') ?? 0;
  for (const part of text.split(',')) {
    const match = /^(\d{1,9})(?:\(x(\d{1,9})\))?$/.exec(part.trim());
    if (match === null)
      throw new UsageError(`${name} is not understood: '${text}'; the tasks of each node are written as in '2(x3),1'`);
    const repeated = Number(match[2] ?? 1);
    if (node < repeated) return Number(match[1]);
    node -= repeated;
  }
  return 1;
}

/**
 * The hosts of Slurm's short form: 'node[1-3,7],gpu[01-02]-ib,login'. Leading zeros are kept.
 * @param most stop after so many.
 * @param from the variable that the list was in, for the error.
 * @throws UsageError for text that is no such list.
 */
export function expandHosts(list: string, most = MAX_HOSTS, from = 'the list of hosts'): string[] {
  const refused = (): UsageError =>
    new UsageError(`${from} is not understood: '${list}'; hosts are written as in 'node[1-3,7],login'`);
  const hosts: string[] = [];
  const items = split(list);
  if (items.join(',') !== list) throw refused();
  for (const item of items) {
    for (const host of expand(item, refused)) {
      if (hosts.length >= most) return hosts;
      hosts.push(host);
    }
  }
  return hosts;
}

/** Splits at the commas outside brackets. */
function split(list: string): string[] {
  return list.match(/(?:[^,[\]]|\[[^[\]]*\])+/g) ?? [];
}

/** Every bracket multiplies. */
function* expand(item: string, refused: () => UsageError): Generator<string> {
  const match = /^([^[\]]*)\[([^[\]]*)\](.*)$/.exec(item);
  if (match === null) {
    if (!/^[\w.-]+$/.test(item)) throw refused();
    yield item;
    return;
  }
  const [, before = '', ranges = '', after = ''] = match;
  for (const range of ranges.split(',')) {
    const bounds = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(range);
    if (bounds === null) throw refused();
    const [, from = '', to = from] = bounds;
    for (let n = Number(from); n <= Number(to); n++)
      yield* expand(before + String(n).padStart(from.length, '0') + after, refused);
  }
}

function kubernetes(env: NodeJS.ProcessEnv, hostsFile: string): Scheduler {
  const nodeRank = count(env, 'JOB_COMPLETION_INDEX') ?? 0;
  // Pods of an indexed job are called <job>-<index>; with a headless service /etc/hosts has <job>-<index>.<service>.<namespace>….
  const own = env['HOSTNAME'] ?? '';
  const suffix = `-${nodeRank}`;
  let masterAddr: string | undefined;
  if (own.endsWith(suffix)) {
    const names = hostsFile.split('\n').flatMap((line) => line.replace(/#.*/, '').trim().split(/\s+/).slice(1));
    const full = names.find((name) => name.startsWith(`${own}.`));
    if (full !== undefined) masterAddr = `${own.slice(0, -suffix.length)}-0${full.slice(own.length)}`;
  }
  return { name: 'kubernetes', nodes: undefined, nodeRank, masterAddr, local: undefined };
}

/** The first of these variables that there is. */
function first(env: NodeJS.ProcessEnv, ...names: readonly string[]): { name: string; text: string } | undefined {
  for (const name of names) {
    const text = env[name];
    if (text !== undefined) return { name, text };
  }
  return undefined;
}

function set(text: string | undefined): boolean {
  return text !== undefined && text !== '';
}

function count(env: NodeJS.ProcessEnv, name: string): number | undefined {
  const text = env[name];
  if (text === undefined || text === '') return undefined;
  if (!/^\d{1,9}$/.test(text)) throw new UsageError(`${name} is not a number: '${text}'`);
  return Number(text);
}
