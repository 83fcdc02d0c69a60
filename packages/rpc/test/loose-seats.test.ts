/** @file Replicas over a group of the program's that keeps a rank and size of its own: what fails before anybody knows the group behind. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { nn, Parameter, zeros, type Tensor } from '@backwire/tensor';
import { processGroup } from '../src/index.ts';
import { openMeetings, startCluster, until, type Cluster } from './cluster.ts';
import { keeping } from './wrapped-groups.ts';

class One extends nn.Module {
  readonly weight = new Parameter(zeros([2]));
  forward(slope: number): Tensor {
    return this.weight.sum().mul(slope);
  }
}
type Replica = nn.DistributedDataParallel<One>;

let cluster: Cluster;
beforeEach(async () => {
  cluster = await startCluster(2);
});
afterEach(() => cluster.close());

/** So many replicas on each worker over one group of the program's. */
const pairs = (count: number): Replica[][] =>
  cluster.agents.map((agent) => {
    const group = keeping(processGroup({ agent }));
    return Array.from({ length: count }, () => new nn.DistributedDataParallel(new One(), { group }));
  });
const pass = (model: Replica): Promise<unknown> =>
  model.backward(model.forward(1)).then(
    () => 'passed',
    (error: unknown) => String(error),
  );

describe('a replica that fails before its first pass', () => {
  it('is told of where another over the group has made one before', async () => {
    const [own, other] = pairs(2) as [Replica[], Replica[]];
    expect(await Promise.all([pass(own[0]!), pass(other[0]!)])).toEqual(['passed', 'passed']);
    const waits = pass(own[1]!);
    other[1]!.fail(new RangeError('not this one'));
    expect(await waits).toMatch(/worker 'w1' makes no further pass with replica 2 of its group: not this one/);
    await until(() => openMeetings(cluster) === 0, 'nothing waits');
  });

  it('and as soon as one makes one after', async () => {
    const [own, other] = pairs(2) as [Replica[], Replica[]];
    other[1]!.fail(new RangeError('not this one'));
    expect(await Promise.all([pass(own[0]!), pass(other[0]!)])).toEqual(['passed', 'passed']);
    expect(await pass(own[1]!)).toMatch(/worker 'w1' makes no further pass with replica 2 of its group: not this one/);
  });
});
