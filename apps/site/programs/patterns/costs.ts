/**
 * @file What the patterns of docs/patterns.md cost: each done both ways, in turns, between two processes. Prints one line a pattern, the
 * ratio being the median over the rounds.
 *
 *     npx backwire run --standalone --nproc-per-node 2 apps/site/programs/patterns/costs.ts [rounds] [name …]
 */
import { initRpc, shutdown } from 'backwire';
import { patterns } from './pairs.ts';

const [rounds = '7', ...names] = process.argv.slice(2);

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? NaN;
}

await initRpc({ name: `worker${process.env.RANK}` });
if (process.env.RANK === '0')
  for (const { name, unit, one, other } of patterns.filter(({ name }) => names.length === 0 || names.includes(name))) {
    const costs: [number, number][] = [];
    // The first round warms up.
    for (let i = 0; i <= Number(rounds); i++) costs.push([await one(), await other()]);
    const kept = costs.slice(1);
    const [a, b] = [median(kept.map(([cost]) => cost)), median(kept.map(([, cost]) => cost))];
    const ratio = median(kept.map(([cost, of]) => cost / of));
    console.log(`${name}: ${a.toPrecision(3)} and ${b.toPrecision(3)} ${unit}, ${ratio.toPrecision(3)} times`);
  }
await shutdown();
