/** @file Workers that reduce tensors together. */
import { noGrad, Tensor, type nn } from '@backwire/tensor';
import {
  currentExchange,
  LooseSeat,
  partReduces,
  takeSeat,
  untracked,
  type SeatingGroup,
} from '@backwire/tensor/internal';
import { reduceInParts } from './agent/all-reduce.ts';
import type { MeetOptions } from './agent/collectives.ts';
import { tensorIn, type CollectiveTags, type Combine } from './agent/combine.ts';
import { wholeAgentOf } from './agent/current-agent.ts';
import type { Place } from './agent/replica-seats.ts';
import { invalidArgument } from './base/errors.ts';
import { GROUP_TIMEOUT_MS } from './base/limits.ts';
import { checkTimeoutMs, checkWorkers, refuseUnknown, show } from './base/options.ts';
import type { RpcAgent } from './base/rpc-agent.ts';
import { running } from './calls.ts';

const GROUP_OPTIONS: ReadonlySet<string> = new Set(['workers', 'timeoutMs', 'agent']);
const REDUCE_OPTIONS: ReadonlySet<string> = new Set(['timeoutMs', 'signal', 'tags']);
const BROADCAST_OPTIONS: ReadonlySet<string> = new Set(['timeoutMs', 'signal']);

/**
 * The named workers (default: all) as a group that reduces tensors. Every member has to make the same calls in the same order.
 * @param options `workers`: the names of its members, all of the group by default; `timeoutMs`: how long what it is asked for waits
 *   for the others where nothing else is said, which passes of replicas over it cannot: half an hour by default, as in PyTorch, 0 = no
 *   limit; `agent`
 * @throws RpcError 'invalid-argument' when this worker is not among them; RangeError for no time.
 * @example
 * ```ts
 * await initRpc({ name: 'worker0', rank: 0, worldSize: 1, store: 'memory://example-reduce' });
 * const group = processGroup();
 * const mean = await group.allReduce(tensor([1, 2]), 'mean'); // every member calls it
 * console.log(group.size, mean.toArray()); // 1 [ 1, 2 ]
 * await shutdown();
 * ```
 */
export function processGroup(
  options: { workers?: readonly string[]; timeoutMs?: number; agent?: RpcAgent } = {},
): nn.ProcessGroup {
  refuseUnknown(options, GROUP_OPTIONS, 'processGroup()');
  checkWorkers(options.workers, 'processGroup()');
  const agent = wholeAgentOf('process groups', options);
  const everybody = [agent.name, ...agent.members.others().map(({ worker }) => worker.name)];
  const names = [...new Set(options.workers ?? everybody)].sort(
    (a, b) => agent.members.find(a).worker.id - agent.members.find(b).worker.id,
  );
  const rank = names.indexOf(agent.name);
  if (rank < 0) throw invalidArgument(`worker '${agent.name}' is not in the group`);
  type Timed = { timeoutMs?: number | undefined; signal?: AbortSignal | undefined };
  type Options = Timed & { tags?: CollectiveTags | undefined };
  const limitMs = checkTimeoutMs(options.timeoutMs ?? GROUP_TIMEOUT_MS);
  const { replicas } = agent.collectives;
  // Groups over which replicas were made meet beside each other, as each of them may be used in a loop of its own: in the line of the
  // latest, which is another only where workers have begun anew.
  let seated: Place | undefined;
  // Behind a class of the program's nobody asks for a seat: the values of its replicas meet by the order in which groups were made.
  const unseated = replicas.seats.take(names, 'group');
  /** This group was asked for something: maybe by one of the program's, which a replica is over. */
  const asked = (): void => {
    const seat = currentExchange()?.seat;
    if (seat instanceof LooseSeat) seat.asked(rank, names.length, (number) => replicas.seatAt(names, unseated, number));
  };
  const meet = async (what: string, value: Tensor | null, combine: Combine, about: MeetOptions): Promise<unknown> => {
    asked();
    const limits = { timeoutMs: about.timeoutMs ?? limitMs, line: seated?.line };
    return running(agent).collectives.meet(what, value, combine, { ...about, ...limits });
  };
  const allReduce: nn.ProcessGroup['allReduce'] = async (tensor, op = 'sum', o: Options = {}) => {
    refuseUnknown(o, REDUCE_OPTIONS, 'allReduce()');
    checkTensor(tensor, 'allReduce()');
    checkReduction(op);
    return withOwn(tensor, async (own) => tensorIn(await meet('reduce/whole', own, op, { ...o, workers: names })));
  };
  partReduces.set(allReduce, (tensor, options) =>
    reduceInParts(meet, 'reduce/parts', tensor, { ...options, workers: names, own: agent.name }),
  );
  const group: nn.ProcessGroup & SeatingGroup = {
    get rank() {
      asked();
      return rank;
    },
    get size() {
      asked();
      return names.length;
    },
    allReduce,
    broadcast: async (tensor: Tensor, from: number, o: Timed = {}) => {
      refuseUnknown(o, BROADCAST_OPTIONS, 'broadcast()');
      if (!Number.isInteger(from) || from < 0 || from >= names.length)
        throw new RangeError(`broadcast(): no member has rank ${show(from)}`);
      if (from === rank) checkTensor(tensor, 'broadcast()');
      const about = { ...o, workers: names, tags: { sender: from } };
      const bring = async (value: Tensor | null): Promise<Tensor> =>
        tensorIn(await meet('broadcast/whole', value, 'first', about));
      return from === rank ? withOwn(tensor, bring) : bring(null);
    },
    [takeSeat]: () => {
      const place = replicas.seats.take(names, 'replica');
      if (seated?.lives !== place.lives) seated = place;
      return replicas.seatAt(names, seated, place.number);
    },
  };
  return group;
}

/** Brings a handle outside of the graph, which is released when that is over. */
async function withOwn(tensor: Tensor, bring: (own: Tensor) => Promise<Tensor>): Promise<Tensor> {
  const own = untracked(() => noGrad(() => tensor.detach()));
  try {
    return await bring(own);
  } finally {
    own.release();
  }
}

/** @throws TypeError for what these collectives cannot take. */
function checkTensor(given: unknown, what: string): void {
  if (!(given instanceof Tensor)) throw new TypeError(`${what} takes a tensor, got ${show(given)}`);
}

/** @throws RangeError for what is no reduction: the other members would be asked for something that no program can want. */
function checkReduction(op: unknown): void {
  if (op !== 'sum' && op !== 'mean') throw new RangeError(`allReduce() has 'sum' and 'mean', got ${show(op)}`);
}
