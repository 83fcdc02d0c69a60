/** @file Replicated models for tests of contexts: their gradients are the slopes that they are run with. */
import { processGroup, type RpcAgent } from '@backwire/rpc';
import { full, nn, Parameter, zeros, type Tensor } from '@backwire/tensor';
import { backward, getGradients } from '../src/index.ts';

export class Slope extends nn.Module {
  readonly weight: Parameter;

  constructor(size = 3) {
    super();
    this.weight = new Parameter(zeros([size]));
  }

  forward(slope: number): Tensor {
    return this.weight.mul(full(this.weight.shape, slope)).sum();
  }
}

export type Replica = nn.DistributedDataParallel<Slope>;

/** A replica at each of these ranks, by rank, over what `groupOf` makes of a process group of their own. */
export function replicasAt(
  agents: readonly RpcAgent[],
  ranks: readonly number[],
  groupOf = (group: nn.ProcessGroup): nn.ProcessGroup => group,
): Map<number, Replica> {
  const workers = ranks.map((rank) => `w${rank}`);
  return new Map(
    ranks.map((rank) => {
      const group = groupOf(processGroup({ agent: agents[rank] as RpcAgent, workers }));
      return [rank, new nn.DistributedDataParallel(new Slope(), { group })];
    }),
  );
}

/** The gradient of a replica in a context, the same in all elements; NaN where it is not, undefined where there is none. */
export function gradientIn(id: bigint, { module }: Replica): number | undefined {
  const values = getGradients(id).get(module.weight);
  if (values === undefined) return undefined;
  const [first, ...rest] = new Set(values.dataSync() as Float32Array);
  return rest.length === 0 ? first : NaN;
}

/** A pass from the sum of what replicas give: their gradients, in the order in which they ran. */
export async function passOver(
  id: bigint,
  runs: readonly (readonly [Replica, slope: number])[],
  options: { timeoutMs?: number } = {},
): Promise<(number | undefined)[]> {
  const losses = runs.map(([replica, slope]) => replica.forward(slope));
  await backward(id, losses, options);
  return runs.map(([replica]) => gradientIn(id, replica));
}
