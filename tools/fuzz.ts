/** @file Sends damaged bytes to every decoder and to the port of a running agent: `npm run fuzz -- [--suite wire|live] [--frames N] [--seed S]`. */
import { dispatch } from './suites.ts';

await dispatch('fuzz', { wire: 'packages/wire/fuzz/fuzz.ts', live: 'packages/rpc/fuzz/live.ts' });
