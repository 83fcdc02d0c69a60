import { freePort, start } from './processes.ts';
const store = `tcp://127.0.0.1:${await freePort()}`;
const program = new URL('./suites/rref-worker.ts', import.meta.url);
const env = (rank: number, flags: string) => ({
  BACKWIRE_SECRET: 'only this benchmark knows',
  BENCH_STORE: store,
  BENCH_RANK: String(rank),
  BENCH_NODE_FLAGS: flags,
});
const mode = process.argv[2]!;
const prof = (n: string) =>
  mode.includes('prof')
    ? `--expose-gc --max-old-space-size=4096 --cpu-prof --cpu-prof-dir=/tmp/prof-${n}`
    : '--expose-gc --max-old-space-size=4096';
const owner = await start(program, env(1, prof('owner')));
const user = await start(program, env(0, prof('user')));
const med = (a: number[]) => [...a].sort((x, y) => x - y)[a.length >> 1]!;
if (mode.includes('use'))
  for (let i = 0; i < 12; i++)
    console.log(
      'use',
      med((await user.ask('use', 3000)) as number[]).toFixed(1),
      'burst',
      ((await user.ask('burst', 1000)) as number).toFixed(1),
    );
if (mode.includes('burst'))
  for (let i = 0; i < 400; i++) {
    const b = (await user.ask('burst', 1000)) as number;
    if (i % 40 === 0) console.log('burst', b.toFixed(1));
  }
if (mode.includes('mem')) {
  const b = (await owner.ask('bytes')) as number;
  const ub = (await user.ask('bytes')) as number;
  await user.ask('hold', 1e6);
  console.log((((await owner.ask('bytes')) as number) - b) / 1e6, (((await user.ask('bytes')) as number) - ub) / 1e6);
  const t = performance.now();
  console.log(await user.ask('release'), performance.now() - t);
}
await user.close();
await owner.close();
