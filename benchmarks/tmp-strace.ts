import { freePort, start } from './processes.ts';
import { execSync, spawn } from 'node:child_process';
const store = `tcp://127.0.0.1:${await freePort()}`;
const program = new URL('./suites/rref-worker.ts', import.meta.url);
const env = (rank: number) => ({
  BACKWIRE_SECRET: 'only this benchmark knows',
  BENCH_STORE: store,
  BENCH_RANK: String(rank),
});
const owner = await start(program, env(1));
const user = await start(program, env(0));
for (let i = 0; i < 3; i++) await user.ask('use', 2000);
const s = spawn('strace', ['-p', String(owner.pid), '-o', '/tmp/strace.txt', '-s', '64', '-r'], { stdio: 'inherit' });
await new Promise((r) => setTimeout(r, 1000));
await user.ask('use', 200);
s.kill('SIGINT');
await new Promise((r) => setTimeout(r, 300));
await user.close();
await owner.close();
