/** @file Workers in processes of their own: rank 0 calls through the gateway, rank 1 is it, with a torch group beside it. */
import { once } from 'node:events';
import { createAgent, rpcClass, rpcFunction, rpcInfo } from '@backwire/rpc';
import { rrefs } from '@backwire/rref';
import { rpcName } from '@backwire/tensor';
import type { Agent } from '../src/agent.ts';
import { py, serveGateway, throughGateway } from '../src/index.ts';
import { group } from './group.ts';

rpcFunction('process.never', () => {
  console.log('kill');
  return new Promise<never>(() => undefined);
});
class Box {
  static readonly [rpcName] = 'process.Box';
  value(): number {
    return 7;
  }
}
rpcClass(Box, { methods: ['value'] });
const never = py<() => void>('process.never');
const box = py<Box>('process.Box');
const isGateway = process.env['RANK'] === '1';

// Peers may call as soon as the agent is there, and the gateway a little later.
const torch = isGateway ? await group(2) : [];
const agent = await createAgent({ name: isGateway ? 'gateway' : 'member', extensions: [rrefs()], serve: [] });
if (isGateway) {
  serveGateway(torch[0] as Agent, { serve: [never, { make: box, methods: ['value'] }], agent });
  console.log('ready');
  await new Promise(() => setInterval(() => undefined, 60_000));
}
const said = (name: string, value: unknown): void => console.log(`${name} ${JSON.stringify(value)}`);
await once(process.stdin, 'data');
process.stdin.destroy();
await agent.run(async () => {
  const python = throughGateway('gateway');
  const rref = python.remote('n1', box);
  said('value', await rref.rpcSync().value());
  const failure = (call: Promise<unknown>): Promise<unknown> =>
    call.catch((error: unknown) => [rpcInfo(error)?.code, /gateway/.test(String(error))]);
  said('open', await failure(python.rpcSync('n1', never)));
  said('used', await failure(rref.rpcSync().value()));
  said('later', await failure(python.rpcSync('n1', never)));
});
await agent.shutdown({ graceful: false });
