/** @file The flags of `backwire run`: torchrun's names, in both spellings, each also readable from a PET_ variable. */
import { nearestName } from '@backwire/rpc/internal';
import { UsageError } from './errors.ts';

interface Flag {
  readonly name: string;
  readonly short?: string;
  /** The placeholder of its value; none for a switch. */
  readonly value?: string;
  readonly help: string;
}

/** What was given, by flag name; a switch has the value 'true'. */
export interface ParsedFlags {
  readonly values: ReadonlyMap<string, string>;
  readonly program: string | undefined;
  /** Everything after the program, untouched. */
  readonly args: readonly string[];
}

export const FLAGS: readonly Flag[] = [
  { name: 'nproc-per-node', value: 'N|auto|cpu', help: 'workers on this host (default 1)' },
  { name: 'nnodes', value: 'N|MIN:MAX', help: 'hosts in the group, or how few and how many (default 1)' },
  {
    name: 'membership',
    value: 'static|dynamic',
    help: 'when hosts come or go: all workers start again, or the others run on (default static)',
  },
  { name: 'node-rank', value: 'N', help: "this host's number (default 0; assigned by the rendezvous with c10d)" },
  { name: 'standalone', help: 'one host, a free port: no other flag is needed' },
  { name: 'rdzv-backend', value: 'static|c10d|etcd|redis', help: 'how the hosts find each other (default static)' },
  {
    name: 'rdzv-endpoint',
    value: 'HOST[:PORT]',
    help: 'where the rendezvous is; of etcd or redis also by an address in BACKWIRE_RENDEZVOUS',
  },
  { name: 'rdzv-id', value: 'ID', help: 'the name of this run, the same on every host' },
  { name: 'rdzv-conf', value: 'K=V,...', help: 'join_timeout=SECONDS, last_call_timeout=SECONDS' },
  { name: 'master-addr', value: 'HOST', help: 'where rank 0 is, for the static rendezvous (default 127.0.0.1)' },
  { name: 'master-port', value: 'PORT', help: 'its port (default 29500)' },
  { name: 'local-addr', value: 'HOST', help: 'the address of this host that the others reach' },
  { name: 'max-restarts', value: 'N', help: 'how often a failed group is started again (default 0)' },
  { name: 'monitor-interval', value: 'SECONDS', help: 'accepted for compatibility: exits are noticed at once' },
  { name: 'role', value: 'NAME', help: 'a name for the workers (default "default")' },
  { name: 'log-dir', value: 'DIR', help: 'where --redirects and --tee write their files' },
  {
    name: 'redirects',
    short: 'r',
    value: 'SPEC',
    help: 'output to files only: 0 none, 1 stdout, 2 stderr, 3 both, or RANK:N,...',
  },
  { name: 'tee', short: 't', value: 'SPEC', help: 'output to files and the console, likewise' },
  { name: 'local-ranks-filter', value: 'R,...', help: 'show the output of these local ranks only' },
  {
    name: 'signals-to-handle',
    value: 'SIG,...',
    help: 'signals passed on to the workers (default SIGTERM,SIGINT,SIGHUP,SIGQUIT)',
  },
  { name: 'stop-grace', value: 'SECONDS', help: 'between SIGTERM and SIGKILL when the group is stopped (default 3)' },
  { name: 'no-node', help: 'the program is an executable of its own, not one for node' },
  { name: 'help', short: 'h', help: 'this text' },
];

const BY_NAME = new Map(FLAGS.map((flag) => [flag.name, flag]));
const BY_SHORT = new Map(FLAGS.flatMap((flag) => (flag.short === undefined ? [] : [[flag.short, flag] as const])));
/** torchrun's names for what has another name here. */
const ALIASES = new Map([
  ['no-python', 'no-node'],
  ['shutdown-timeout', 'stop-grace'],
]);
/** What torchrun has and this cannot mean. */
const FOREIGN: ReadonlyMap<string, string> = new Map([
  ['module', 'there are no Python modules here: give the path of the program'],
  ['m', 'there are no Python modules here: give the path of the program'],
  ['run-path', 'give the path of the program'],
  ['start-method', 'workers are always processes of their own'],
  ['numa-binding', 'there are no GPUs here to be near to: start the program by numactl, with --no-node'],
  ['virtual-local-rank', 'LOCAL_RANK is always that of the worker on its host'],
  ...['logs-specs', 'duplicate-stdout-filters', 'duplicate-stderr-filters'].map(
    (name) => [name, 'output goes to files by --redirects, --tee and --log-dir'] as const,
  ),
  ['event-log-handler', 'what happens is told by launch() and its onStart'],
]);

/**
 * Reads flags up to the program; what follows the program is its own.
 * @throws UsageError naming the flag that is unknown, lacks its value or has one too many.
 */
export function parseFlags(argv: readonly string[], env: NodeJS.ProcessEnv): ParsedFlags {
  const values = fromEnvironment(env);
  let at = 0;
  for (; at < argv.length; at++) {
    const token = argv[at] ?? '';
    if (token === '--') {
      at++;
      break;
    }
    if (!token.startsWith('-') || token === '-') break;
    const { flag, inline } = lookUp(token);
    if (flag.value === undefined) {
      if (inline !== undefined && inline !== 'true' && inline !== 'false')
        throw new UsageError(`flag --${flag.name} takes no value, got '${inline}'`);
      values.set(flag.name, inline ?? 'true');
      continue;
    }
    const value = inline ?? argv[++at];
    if (value === undefined) throw new UsageError(`flag --${flag.name} needs a value: ${flag.value}`);
    values.set(flag.name, value);
  }
  return { values, program: argv[at], args: argv.slice(at + 1) };
}

/** Flags that hardly a program has itself. */
const LAUNCHERS_OWN = /^(nproc-per-node|nnodes|node-rank|standalone|rdzv-[a-z]+|max-restarts)$/;

/** The first flag of the launcher that stands after the program, to which it goes; undefined when there is none. */
export function strayFlag(args: readonly string[]): string | undefined {
  const end = args.indexOf('--');
  return args
    .slice(0, end === -1 ? args.length : end)
    .find((arg) => arg.startsWith('--') && LAUNCHERS_OWN.test(arg.slice(2).replace(/=.*/, '').replaceAll('_', '-')));
}

/** The help text of the flags, one a line. */
export function describeFlags(): string {
  const rows = FLAGS.map((flag) => ({
    left: `${flag.short === undefined ? '    ' : `-${flag.short}, `}--${flag.name}${flag.value === undefined ? '' : ` ${flag.value}`}`,
    help: flag.help,
  }));
  const width = Math.max(...rows.map(({ left }) => left.length)) + 2;
  return rows.map(({ left, help }) => `  ${left.padEnd(width)}${help}`).join('\n');
}

function fromEnvironment(env: NodeJS.ProcessEnv): Map<string, string> {
  const values = new Map<string, string>();
  for (const flag of FLAGS) {
    const names = [flag.name, ...aliasesOf(flag.name)];
    const value = names.map((name) => env[`PET_${name.replaceAll('-', '_').toUpperCase()}`]).find((one) => !!one);
    if (value === undefined) continue;
    // torchrun reads a switch's variable as a number or a truth value.
    if (flag.value === undefined) values.set(flag.name, /^(1|true|yes)$/i.test(value) ? 'true' : 'false');
    else values.set(flag.name, value);
  }
  return values;
}

function aliasesOf(name: string): string[] {
  return [...ALIASES].flatMap(([alias, of]) => (of === name ? [alias] : []));
}

function lookUp(token: string): { flag: Flag; inline: string | undefined } {
  const long = token.startsWith('--');
  const body = token.slice(long ? 2 : 1);
  const equals = body.indexOf('=');
  const written = equals < 0 ? body : body.slice(0, equals);
  const inline = equals < 0 ? undefined : body.slice(equals + 1);
  const name = written.replaceAll('_', '-');
  const flag = long ? BY_NAME.get(ALIASES.get(name) ?? name) : BY_SHORT.get(name);
  if (flag !== undefined) return { flag, inline };
  const reason = FOREIGN.get(name);
  if (reason !== undefined) throw new UsageError(`flag ${token}: ${reason}`);
  const near = nearestName(name, BY_NAME.keys());
  throw new UsageError(`unknown flag '${token}'${near === undefined ? '' : `; did you mean --${near}?`}`);
}
