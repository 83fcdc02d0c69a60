// What a page does: it is bundled for browsers, joins a group and calls with a tensor.
import { createAgent, remoteFunction, rpcAsync, tensor } from 'backwire';

const scale = remoteFunction('scale');

globalThis.call = async (store, secret) => {
  const security = { mode: 'hmac', secret };
  const agent = await createAgent({ name: 'page', membership: 'dynamic', store, security });
  const y = await rpcAsync('worker', scale, [tensor([1, 2, 3]), 5], { agent });
  await agent.shutdown();
  return y.toArray();
};
