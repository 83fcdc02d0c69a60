/** @file Backwire's worker 1: serves until its input ends. */
import { once } from 'node:events';
import { createAgent } from '@backwire/rpc';
import { agentOptions, type BackwireOptions } from './backwire.ts';
import './served.ts';

const options = JSON.parse(process.env['BENCH_OPTIONS'] ?? '{}') as BackwireOptions;
const store = process.env['BENCH_STORE'] ?? '';
const agent = await createAgent({ name: 'w1', rank: 1, worldSize: 2, store, ...agentOptions(options) });
process.stdin.resume();
await once(process.stdin, 'end');
await agent.shutdown({ graceful: false });
