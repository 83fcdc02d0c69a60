// What a page does: it is bundled for browsers, joins a group and calls with a tensor.
import { createAgent, remoteFunction, rpcAsync, rpcInfo, tensor } from 'backwire';
import { py, throughGateway } from '@backwire/torch/gateway';

const scale = remoteFunction('scale');
const callBack = remoteFunction('call-back');

globalThis.call = async (store, secret) => {
  const security = { mode: 'hmac', secret };
  const agent = await createAgent({ name: 'page', membership: 'dynamic', store, security });
  const y = await rpcAsync('worker', scale, [tensor([1, 2, 3]), 5], { agent });
  // The worker is no gateway, and says so.
  const call = throughGateway('worker').rpcSync('python', py('model.predict'), [], { agent });
  const refused = await call.catch((error) => rpcInfo(error)?.code);
  const called = await rpcAsync('worker', callBack, ['page'], { agent });
  await agent.shutdown();
  return [...y.toArray(), refused, called];
};
