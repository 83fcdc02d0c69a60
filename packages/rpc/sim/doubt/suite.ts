/** @file The suite of groups in doubt: a few workers, with store outages, deaths, stalls, and cuts of pairs, ways and parts. */
import { calm, Simulation, type RunResult, type Suite } from '@backwire/testing';
import { lifeOf } from '../../src/protocol/membership.ts';
import type { Knock } from '../../src/transports/knock.ts';
import { STORE } from './messages.ts';
import { DoubtOracle, type DoubtCounts } from './oracle.ts';
import { SETTLE_MS, drawScenario, nodesOf, type DoubtScenario, type Kind } from './scenario.ts';
import { DoubtMember, SOUND, type DoubtRules } from './sim-member.ts';
import { DoubtStore } from './sim-store.ts';

export interface DoubtRun extends RunResult {
  readonly counts: Readonly<DoubtCounts>;
}

const RATES = { ...calm, latencyMs: 2, jitterMs: 10 };
const LIVENESS_MS = 120_000;

export function doubtSuite(
  rules: DoubtRules = SOUND,
  seen?: (run: DoubtRun) => void,
  kinds?: readonly Kind[],
): Suite<DoubtScenario> {
  return {
    name: 'groups in doubt',
    draw: (seed) => drawScenario(seed, kinds),
    run: (scenario) => {
      const run = runScenario(scenario, rules);
      seen?.(run);
      return run;
    },
  };
}

function runScenario({ seed, workers, episodes, linked }: DoubtScenario, rules: DoubtRules): DoubtRun {
  const faults = episodes.flatMap((episode) => episode.faults);
  const simulation = new Simulation({ seed, faults, rates: RATES, drift: 0.001 });
  const { clock, network } = simulation;
  const oracle = new DoubtOracle(simulation, episodes);
  const members = new Map<string, DoubtMember>();
  simulation.addNode(STORE, (env) => new DoubtStore(env, oracle));
  const knock = (from: string, to: string): Knock => {
    if (network.blocked(from, to) || network.blocked(to, from)) return 'silent';
    return simulation.node(to).state === 'down' ? 'refused' : 'there';
  };
  for (const node of nodesOf(workers)) {
    const own = linked.filter((pair) => pair.includes(node)).map(([a, b]) => (a === node ? b : a));
    const plan = { oracle, rules, linked: own, knock: (to: string) => knock(node, to) };
    simulation.addNode(node, (env) => {
      const member = new DoubtMember(env, plan);
      members.set(node, member);
      return member;
    });
  }
  for (const { at, forMs, blocks } of episodes) {
    const each = (change: (from: string, to: string) => void) => () => {
      if (!simulation.healed) for (const [from, to] of blocks) change(from, to);
    };
    clock.at(
      at,
      'cut',
      each((from, to) => network.block(from, to)),
    );
    clock.at(
      at + forMs,
      'mend',
      each((from, to) => network.unblock(from, to)),
    );
  }
  for (const fault of faults) if (fault.kind === 'crash' && fault.node !== STORE) follow(simulation, oracle, fault);
  const last = episodes.at(-1);
  const result = simulation.run({
    safetyMs: last === undefined ? SETTLE_MS : last.at + last.forMs + SETTLE_MS + 1,
    livenessMs: LIVENESS_MS,
    done: () => isWhole(members),
    describe: () => describe(members),
    maxEvents: 5_000_000,
  });
  return { ...result, counts: oracle.counts };
}

/** A death is to be noticed by all before the worker is started again. */
function follow(
  { clock }: Simulation,
  oracle: DoubtOracle,
  { at, node, restartAfterMs = 0 }: { at: number; node: string; restartAfterMs?: number },
): void {
  clock.at(at, 'death', () => {
    const life = oracle.lifeAt(node);
    oracle.crashed(node);
    if (life !== undefined) clock.at(at + restartAfterMs - 1, 'noticed', () => oracle.mustBeGone(life));
  });
}

/** Everybody is a member, knows the same view, and doubts nobody. */
function isWhole(members: ReadonlyMap<string, DoubtMember>): boolean {
  const views = new Set([...members.values()].map(({ settledView }) => settledView));
  const [view] = views;
  return views.size === 1 && view?.members.length === members.size;
}

function describe(members: ReadonlyMap<string, DoubtMember>): string {
  return [...members]
    .map(([node, { settledView }]) => `${node}: ${settledView?.members.map(lifeOf).join() ?? 'in doubt'}`)
    .join('; ');
}
