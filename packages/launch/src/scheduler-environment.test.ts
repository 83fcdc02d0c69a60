/** @file What schedulers say about a launcher's place. */
import { describe, expect, it } from 'vitest';
import { parseFlags } from './flags.ts';
import { launchOptions } from './run-command.ts';
import { expandHosts, findScheduler } from './scheduler-environment.ts';

const flagsOf = (env: NodeJS.ProcessEnv, argv: readonly string[], hosts = '') =>
  launchOptions(parseFlags([...argv, 'p.ts'], {}), findScheduler(env, 1, hosts));

describe('Slurm', () => {
  it.each([
    ['node1', ['node1']],
    ['a,b', ['a', 'b']],
    ['node[1-3,7]', ['node1', 'node2', 'node3', 'node7']],
    ['gpu[08-11]-ib,login.example.org', ['gpu08-ib', 'gpu09-ib', 'gpu10-ib', 'gpu11-ib', 'login.example.org']],
    ['r[1-2]n[01-02]', ['r1n01', 'r1n02', 'r2n01', 'r2n02']],
  ])('names the hosts of %s', (list, hosts) => expect(expandHosts(list)).toEqual(hosts));

  it.each(['node[1-', 'node[a-b]', 'no de', 'n[1-2]]'])('refuses %s', (list) =>
    expect(() => expandHosts(list)).toThrow('not understood'),
  );

  it('does not expand more than it is asked for', () => {
    expect(expandHosts('n[0-999999999]', 2)).toEqual(['n0', 'n1']);
    expect(expandHosts('n[0-999999999]')).toHaveLength(32_768);
  });

  const step = {
    SLURM_STEP_ID: '0',
    SLURM_JOB_NODELIST: 'n[1-2]',
    SLURM_STEP_NODELIST: 'n[1-2]',
    SLURM_PROCID: '3',
    SLURM_NTASKS: '4',
    SLURM_NODEID: '1',
    SLURM_LOCALID: '1',
    SLURM_STEP_TASKS_PER_NODE: '2(x2)',
  };

  it('gives every task its place: rank, size, master and its part of the node', () => {
    expect(flagsOf(step, [])).toMatchObject({
      nodes: 4,
      minNodes: 4,
      nodeRank: 3,
      masterAddr: 'n1',
      masterPort: 29_500,
      local: { first: 1, size: 2 },
    });
  });

  it('one task a node has all workers of its node', () => {
    const env = {
      ...step,
      SLURM_NTASKS: '2',
      SLURM_PROCID: '1',
      SLURM_LOCALID: '0',
      SLURM_STEP_TASKS_PER_NODE: '1(x2)',
    };
    const options = launchOptions(parseFlags(['--nproc-per-node', '4', 'p.ts'], {}), findScheduler(env, 4, ''));
    expect(options).toMatchObject({ nodes: 2, nodeRank: 1, processes: 4 });
    expect(options.local).toBeUndefined();
  });

  it('counts uneven tasks', () => {
    const env = { ...step, SLURM_STEP_TASKS_PER_NODE: '3,1(x2)', SLURM_NODEID: '0', SLURM_LOCALID: '2' };
    expect(flagsOf(env, []).local).toEqual({ first: 2, size: 3 });
    expect(flagsOf({ ...env, SLURM_NODEID: '2', SLURM_LOCALID: '0' }, []).local).toBeUndefined();
  });

  it.each([
    ['SLURM_STEP_TASKS_PER_NODE', '2(x2', "'2(x2'; the tasks of each node are written as in '2(x3),1'"],
    ['SLURM_TASKS_PER_NODE', 'two', "'two'; the tasks of each node are written as in '2(x3),1'"],
    ['SLURM_STEP_NODELIST', 'n[1-', "'n[1-'; hosts are written as in 'node[1-3,7],login'"],
    ['SLURM_JOB_NODELIST', 'n[a-b]', "'n[a-b]'; hosts are written as in 'node[1-3,7],login'"],
    ['SLURM_NODELIST', 'n 1', "'n 1'; hosts are written as in 'node[1-3,7],login'"],
  ])('names the variable that it does not understand: %s', (name, text, words) => {
    const env = { SLURM_STEP_ID: '0', SLURM_PROCID: '0', [name]: text };
    expect(() => findScheduler(env, 1, '')).toThrow(`${name} is not understood: ${words}`);
  });

  it('is not asked in a batch script, nor against flags', () => {
    expect(findScheduler({ ...step, SLURM_STEP_ID: undefined }, 1, '')).toBeUndefined();
    expect(flagsOf(step, ['--nnodes', '8', '--node-rank', '5', '--master-addr', 'x'])).toMatchObject({
      nodes: 8,
      nodeRank: 5,
      masterAddr: 'x',
    });
    expect(() => findScheduler({ ...step, SLURM_PROCID: 'x' }, 1, '')).toThrow("SLURM_PROCID is not a number: 'x'");
  });
});

describe('an indexed job of Kubernetes', () => {
  const hosts = '127.0.0.1 localhost\n10.1.0.7\ttrain-2.train.default.svc.cluster.local\ttrain-2\n';
  const pod = { JOB_COMPLETION_INDEX: '2', HOSTNAME: 'train-2' };

  it('gives every pod its number, and the name of the first', () => {
    expect(flagsOf(pod, ['--nnodes', '3'], hosts)).toMatchObject({
      nodes: 3,
      nodeRank: 2,
      masterAddr: 'train-0.train.default.svc.cluster.local',
    });
  });

  it('leaves the address to a flag where there is no headless service', () => {
    expect(flagsOf(pod, ['--nnodes', '3', '--master-addr', 'ps'], '')).toMatchObject({ nodeRank: 2, masterAddr: 'ps' });
    expect(findScheduler(pod, 1, '')?.masterAddr).toBeUndefined();
  });

  it('has no number in an elastic group', () => {
    const argv = ['--nnodes', '1:4', '--rdzv-backend', 'c10d', '--rdzv-endpoint', 'store:29400'];
    expect(flagsOf(pod, argv, hosts)).toMatchObject({ nodes: 4, minNodes: 1, masterAddr: 'store', masterPort: 29_400 });
    expect(flagsOf(pod, argv, hosts).nodeRank).toBeUndefined();
  });
});
