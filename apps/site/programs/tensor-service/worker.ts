import { initRpc, shutdown } from 'backwire';
import { generate, score } from './model.ts';

await initRpc({
  name: `model${process.env.RANK}`,
  membership: 'dynamic', // workers come and go
  serve: [score, generate], // and nothing else
  maxConcurrentCalls: 32,
});
console.log('ready');
process.on('SIGTERM', () => {
  // Takes no new calls, ends those it has, leaves. Those that take longer than two seconds are cut off, and named.
  shutdown({ timeoutMs: 2_000 }).catch((error: Error) => console.error(error.message));
});
