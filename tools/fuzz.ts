/** @file Sends damaged bytes to every decoder and to the port of a running agent, and a hostile member to another: `npm run fuzz -- [--suite wire|torch|live|member] [--frames N] [--seed S]`. */
import { dispatch } from './suites.ts';

await dispatch('fuzz', {
  wire: 'packages/wire/fuzz/fuzz.ts',
  torch: 'packages/torch/fuzz/fuzz.ts',
  live: 'packages/rpc/fuzz/live.ts',
  member: 'packages/backwire/fuzz/member.ts',
});
