/** @file Backwire's worker 1: serves until it is told to end. */
import { initRpc } from '@backwire/rpc';
import { serveAsks } from '../processes.ts';
import { agentOptions } from './backwire.ts';
import './served.ts';
import './variants.ts';

const agent = agentOptions(1).then(initRpc);
serveAsks({ close: async () => (await agent).shutdown({ graceful: false }) });
