import { describe, expect, it } from 'vitest';
import { drawFaults, drawRates, type Fault, type LinkRates } from './faults.ts';
import { Random } from './random.ts';
import { formatTotals, runSeeds, SeedFailure, type Suite } from './seeds.ts';
import { Simulation, SimulationFailure } from './simulation.ts';
import type { NodeEnv, SimNode } from './sim-node.ts';

/** Stop-and-wait over datagrams: enough of a protocol to break. */
interface Rules {
  readonly dedupe: boolean;
  readonly retry: boolean;
}
interface Scenario {
  readonly seed: number;
  readonly program: readonly number[];
  readonly faults: readonly Fault[];
  readonly rates: LinkRates;
}

function sender(env: NodeEnv, program: readonly number[], rules: Rules, done: () => void): SimNode {
  let at = 0;
  const send = (): void => {
    if (at >= program.length) return done();
    const seq = at;
    env.send('b', { seq, value: program[at] });
    if (rules.retry) env.setTimer(50, 'retry', () => seq === at && send());
  };
  env.setTimer(0, 'begin', send);
  return {
    onDatagram: (_from, message) => {
      if ((message as { ack: number }).ack !== at) return;
      at++;
      send();
    },
  };
}

function receiver(env: NodeEnv, delivered: number[], rules: Rules): SimNode {
  let next = 0;
  return {
    onDatagram: (from, message) => {
      const { seq, value } = message as { seq: number; value: number };
      env.send(from, { ack: seq });
      if (rules.dedupe && seq !== next) return;
      next = seq + 1;
      delivered.push(value);
    },
  };
}

const suite = (rules: Rules): Suite<Scenario> => ({
  name: 'stop-and-wait',
  draw: (seed) => {
    const random = new Random(seed);
    return {
      seed,
      program: Array.from({ length: 12 }, (_, i) => i),
      faults: drawFaults(random.split('faults'), { nodes: ['a', 'b'], durationMs: 2_000 }),
      rates: drawRates(random.split('rates')),
    };
  },
  run: ({ seed, program, faults, rates }) => {
    const simulation = new Simulation({ seed, faults, rates });
    const delivered: number[] = [];
    let finished = false;
    simulation.addNode('a', (env) => sender(env, program, rules, () => (finished = true)));
    simulation.addNode('b', (env) => receiver(env, delivered, rules));
    simulation.invariant('prefix', () =>
      delivered.every((value, i) => value === program[i]) ? undefined : `delivered ${delivered.join()}`,
    );
    simulation.atEnd('complete', () => (delivered.length === program.length ? undefined : `${delivered.length}`));
    return simulation.run({ safetyMs: 3_000, livenessMs: 10_000, done: () => finished });
  },
});

describe('Simulation', () => {
  it('passes a correct protocol over many seeds, deterministically', async () => {
    const totals = await runSeeds(suite({ dedupe: true, retry: true }), { count: 300, recheckEvery: 5 });
    expect(totals.seeds).toBe(300);
    expect(totals.rechecked).toBe(60);
    expect(formatTotals(totals)).toContain('300 seeds passed');
  });

  it('catches a missing duplicate check and shrinks it to one message and one fault rate', async () => {
    const failure: unknown = await runSeeds(suite({ dedupe: false, retry: true }), { count: 300 }).catch(
      (e: unknown) => e,
    );
    expect(failure).toBeInstanceOf(SeedFailure);
    const { message, scenario, seed } = failure as SeedFailure & { scenario: Scenario };
    expect(message).toContain(`npm run sim -- --suite stop-and-wait --seed ${seed}`);
    expect(message).toMatch(/prefix: delivered (\d+),\1/);
    expect(scenario.program.length).toBeLessThanOrEqual(2);
    expect(scenario.faults.length).toBeLessThanOrEqual(1);
  });

  it('catches a missing retry in the liveness phase', async () => {
    const failure: unknown = await runSeeds(suite({ dedupe: true, retry: false }), { count: 300 }).catch(
      (e: unknown) => e,
    );
    expect((failure as Error).message).toContain('not settled 10000 ms after healing');
  });

  it('gives another hash for another seed and the same for the same', () => {
    const { draw, run } = suite({ dedupe: true, retry: true });
    const hash = (seed: number): unknown => (run(draw(seed)) as { hash: string }).hash;
    expect(hash(5)).toBe(hash(5));
    expect(new Set([1, 2, 3, 4, 5, 6].map(hash)).size).toBe(6);
  });

  it('reports a protocol that changes from run to run', async () => {
    let calls = 0;
    const flaky: Suite<object> = {
      name: 'flaky',
      draw: () => ({}),
      run: () => ({ events: 1, virtualMs: 1, hash: String(calls++) }),
    };
    await expect(runSeeds(flaky, { count: 50 })).rejects.toThrow('not deterministic');
  });

  it('restarts crashed nodes as a new incarnation without their timers', () => {
    const simulation = new Simulation({
      seed: 1,
      faults: [{ kind: 'crash', at: 10, node: 'a', restartAfterMs: 5 }],
    });
    const log: string[] = [];
    simulation.addNode('a', (env) => {
      log.push(`start ${env.incarnation}`);
      env.setTimer(12, 'tick', () => log.push(`tick ${env.incarnation} at ${env.now()}`));
      return {};
    });
    simulation.run({ safetyMs: 100, livenessMs: 100 });
    expect(log).toEqual(['start 1', 'start 2', 'tick 2 at 27']);
  });

  it('delays the timers and messages of a paused node and keeps their order', () => {
    const simulation = new Simulation({ seed: 1, faults: [{ kind: 'pause', at: 5, node: 'b', forMs: 20 }] });
    const log: string[] = [];
    simulation.addNode('a', (env) => {
      env.setTimer(6, 'one', () => env.send('b', 'one'));
      env.setTimer(7, 'two', () => env.send('b', 'two'));
      return {};
    });
    simulation.addNode('b', (env) => {
      env.setTimer(6, 'timer', () => log.push(`timer ${env.now()}`));
      return { onDatagram: (_from, message) => log.push(`${String(message)} ${env.now()}`) };
    });
    simulation.run({ safetyMs: 100, livenessMs: 100 });
    expect(log).toEqual(['timer 25', 'one 25', 'two 25']);
  });

  it('heals partitions and pauses that would outlast the safety phase', () => {
    const faults: Fault[] = [
      { kind: 'partition', at: 0, forMs: 1e9, nodes: ['a'], symmetric: true },
      { kind: 'pause', at: 0, node: 'b', forMs: 1e9 },
    ];
    const simulation = new Simulation({ seed: 1, faults });
    const got: number[] = [];
    simulation.addNode('a', (env) => {
      const again = (): void => {
        env.send('b', 1);
        if (got.length === 0) env.setTimer(10, 'again', again);
      };
      env.setTimer(10, 'again', again);
      return {};
    });
    simulation.addNode('b', (env) => ({ onDatagram: () => got.push(env.now()) }));
    simulation.run({ safetyMs: 50, livenessMs: 100, done: () => got.length > 0 });
    expect(got[0]).toBeGreaterThan(50);
  });

  it('turns an exception in a handler into a failure with the seed and its trace', () => {
    const simulation = new Simulation({ seed: 99 });
    simulation.addNode('a', (env) => {
      env.setTimer(1, 'boom', () => {
        env.record('about to break');
        throw new Error('broken handler');
      });
      return {};
    });
    const run = (): unknown => simulation.run({ safetyMs: 10, livenessMs: 10 });
    expect(run).toThrow(SimulationFailure);
    expect(() => new Simulation({ seed: 99 }).fail('rule', 'detail')).toThrow(/seed 99/);
    const again = new Simulation({ seed: 99 });
    again.addNode('a', (env) => {
      env.setTimer(1, 'boom', () => {
        env.record('about to break');
        throw new Error('broken handler');
      });
      return {};
    });
    expect(() => again.run({ safetyMs: 10, livenessMs: 10 })).toThrow(/broken handler[\s\S]*a: about to break/);
  });

  it('lets awaiting node code go on after each event', async () => {
    const simulation = new Simulation({ seed: 1 });
    const log: number[] = [];
    simulation.addNode('a', (env) => {
      const sleep = (ms: number): Promise<void> => new Promise((resolve) => env.setTimer(ms, 'sleep', resolve));
      void (async () => {
        for (let i = 0; i < 3; i++) {
          await sleep(10);
          log.push(env.now());
        }
      })();
      return {};
    });
    await simulation.runAsync({ safetyMs: 100, livenessMs: 10 });
    expect(log).toEqual([10, 20, 30]);
  });
});
