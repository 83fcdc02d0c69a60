/** @file A member that has proved itself calls every name there is, and names there are not, in every way, with random arguments. */
import { definitions, type ExtensionHost } from '@backwire/rpc/internal';
import { Random } from '@backwire/testing';
import { MessageType } from '@backwire/wire/internal';
import * as backwire from '../src/index.ts';
import { giveCanaries, ran } from './canaries.ts';

const { distAutograd, profiler, remote, rpcAsync, rpcInfo, rpcOneway, rpcStream, tensor } = backwire;

const echo = backwire.rpcFunction('member-fuzz/echo', (x: unknown) => x);

/** What a run saw. */
export interface MemberReport {
  readonly calls: number;
  /** How many ended how: 'ok', or the code of the error. */
  readonly outcomes: ReadonlyMap<string, number>;
  /** Names that were called. */
  readonly names: number;
  /** Code that ran and is not served: each is a hole. */
  readonly ran: readonly string[];
  /** Promises that were rejected with nobody to hear of it. */
  readonly unheard: readonly unknown[];
}

/** Names of builtins to begin with; most of what there is follows from `definitions()`. */
const LENT = ['aten::add', 'aten::outer', 'aten::matmul', 'nn.Linear', 'nn.Sequential', 'optim.SGD', 'optim.Adam'];
const NONSENSE = [
  '',
  '__proto__',
  'constructor',
  'toString',
  'nn.',
  'aten::',
  'nn.Module',
  'canary/',
  'a\0b',
  'x'.repeat(600),
];
const METHODS = [
  'step',
  'forward',
  'parameters',
  'train',
  'open',
  'secret',
  'constructor',
  '__proto__',
  'then',
  'add',
  'data',
];
const PATIENCE_MS = 30_000;
/** A call that waits for others by design (a barrier) is given up. */
const CALL_MS = 200;
const AT_ONCE = 32;
const nothing = (): void => undefined;
const logger: backwire.Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };

/** Sends `calls` calls to a worker that serves a list and builtins. Rejects when that stops to answer its other callers. */
export async function fuzzMember(calls: number, seed: number): Promise<MemberReport> {
  const store = `memory://member-fuzz-${seed}-${calls}`;
  const security = { mode: 'hmac', secret: 'what every member knows' } as const;
  const serve = [echo, giveCanaries];
  const start = (name: string, rank: number, more: Partial<backwire.RpcOptions>): Promise<backwire.RpcAgent> =>
    backwire.createAgent({ name, rank, worldSize: 3, store, security, logger, transports: ['tcp'], ...more });
  const [victim, attacker, bystander] = await Promise.all([
    start('victim', 0, { serve, builtins: true, limits: { maxMessageBytes: 8 << 20 } }),
    start('attacker', 1, {}),
    start('bystander', 2, {}),
  ]);
  const unheard: unknown[] = [];
  const hear = (reason: unknown): void => void unheard.push(reason);
  process.on('unhandledRejection', hear);
  const member = new Member(attacker as ExtensionHost, new Random(seed));
  try {
    await attacker.run(() => member.prepare());
    while (member.calls < calls) {
      await attacker.run(() => member.some(Math.min(AT_ONCE, calls - member.calls)));
      const answer = await bystander.run(() => rpcAsync('victim', echo, [member.calls], { timeoutMs: PATIENCE_MS }));
      if (answer !== member.calls) throw new Error(`the victim answered ${String(answer)} instead of ${member.calls}`);
    }
  } finally {
    await Promise.all([victim, attacker, bystander].map((agent) => agent.shutdown({ graceful: false })));
    process.off('unhandledRejection', hear);
  }
  return { calls: member.calls, outcomes: member.outcomes, names: member.named.size, ran: [...ran], unheard };
}

type Way = (name: string, args: unknown[]) => Promise<unknown>;

class Member {
  calls = 0;
  readonly outcomes = new Map<string, number>();
  readonly named = new Set<string>();
  private readonly random: Random;
  private readonly ways: readonly Way[];
  private canaries: readonly backwire.RRef<object>[] = [];
  private keys = 0;

  constructor(host: ExtensionHost, random: Random) {
    this.random = random;
    this.ways = waysOf(host, () => `key-${this.keys++ % 50}`);
  }

  async prepare(): Promise<void> {
    this.canaries = await rpcAsync('victim', giveCanaries);
  }

  /** `count` calls at once, to their ends. */
  async some(count: number): Promise<void> {
    const { random } = this;
    const library = definitions().flatMap(({ name, origin }) => (origin === 'system' ? [name] : []));
    const one = async (): Promise<void> => {
      const name = random.chance(0.5) ? random.pick(library) : this.name();
      this.named.add(name);
      const args = random.chance(0.6) ? this.fitting(name) : this.list(2);
      const way = random.pick(this.ways);
      const outcome = await (async () => way(name, args))().then(
        () => 'ok',
        (error: unknown) => rpcInfo(error)?.code ?? 'here',
      );
      this.outcomes.set(outcome, (this.outcomes.get(outcome) ?? 0) + 1);
    };
    this.calls += count;
    await Promise.all(Array.from({ length: count }, one));
  }

  private name(): string {
    const { random } = this;
    if (random.chance(0.2)) return random.pick(NONSENSE);
    return random.pick([...definitions().map(({ name }) => name), ...LENT]);
  }

  /** Arguments of the kinds that the library's own names take. */
  private fitting(name: string): unknown[] {
    const { random } = this;
    const rref = (): unknown => (random.chance(0.8) ? random.pick(this.canaries) : this.value(0));
    if (name.endsWith('.create')) return [this.name(), [rref()], random.chance(0.5) ? [{ lr: 1 }] : 'cpu'];
    if (name.startsWith('backwire/remote-module'))
      return [rref(), random.pick<unknown>(['cpu', true, [], this.list(1)])];
    if (name.startsWith('backwire/optimizer')) return [rref(), BigInt(random.int(0, 1_000))];
    if (name.startsWith('backwire.rref/')) return [rref(), random.pick(METHODS), this.list(1)];
    if (name.startsWith('rpc/'))
      return ['key', ['attacker'], this.value(1), random.pick(['all', 'sum', 'x']), true, 10];
    return this.list(2);
  }

  private list(depth: number): unknown[] {
    return Array.from({ length: this.random.int(0, 4) }, () => this.value(depth));
  }

  private value(depth: number): unknown {
    const { random } = this;
    const kind = random.weighted({
      small: 4,
      text: 3,
      tensor: 3,
      rref: 3,
      nothing: 2,
      big: 1,
      list: depth,
      object: depth,
    });
    if (kind === 'small') return random.int(-2, 20);
    if (kind === 'text') return random.pick([...METHODS, ...NONSENSE.slice(0, 8), ...LENT, 'cpu']);
    if (kind === 'tensor')
      return tensor([random.int(0, 5), random.int(0, 5)], { requiresGrad: random.chance(0.3), dtype: 'float32' });
    if (kind === 'rref') return random.pick(this.canaries);
    if (kind === 'nothing') return random.pick([null, undefined, true, NaN]);
    if (kind === 'big') return BigInt(random.int(0, 1_000_000));
    if (kind === 'list') return this.list(depth - 1);
    return { [random.pick([...METHODS, 'lr', 'then'])]: this.value(depth - 1) };
  }
}

/** As `remoteFunction`, with names that it refuses. */
function named(name: string): ((...args: unknown[]) => unknown) & backwire.Named {
  return Object.defineProperty(() => undefined, backwire.rpcName, { value: name }) as never;
}

function waysOf(host: ExtensionHost, key: () => string): Way[] {
  const to = 'victim';
  const limit = { timeoutMs: CALL_MS };
  return [
    (name, args) => rpcAsync(to, named(name), args, limit),
    (name, args) => rpcAsync(to, named(name), args, { ...limit, idempotencyKey: key() }),
    async (name, args) => rpcOneway(to, named(name), args),
    async (name, args) => {
      for await (const item of rpcStream(
        to,
        named(name) as unknown as (() => AsyncGenerator) & backwire.Named,
        args as [],
        limit,
      ))
        return item;
      return undefined;
    },
    async (name, args) => {
      using made = remote(to, named(name), args, limit);
      await made.confirmed();
    },
    (name, args) => distAutograd.context(() => rpcAsync(to, named(name), args, limit)),
    (name, args) => profiler.profile(() => rpcAsync(to, named(name), args, limit)),
    async (name, args) => {
      const victim = host.resolve(to);
      const message = host.encodeCall(victim, named(name), args);
      return host.call(victim, { ...message, type: MessageType.SCRIPT_CALL }, { ...limit, raw: true });
    },
  ];
}
