import { createAgent, remoteFunction, rpcAsync, tensor, type Tensor } from 'backwire';

const predict = remoteFunction<(x: Tensor) => Tensor>('predict');

const agent = await createAgent({
  name: `page-${crypto.randomUUID()}`,
  membership: 'dynamic',
  store: 'ws://127.0.0.1:29501/backwire',
  security: { mode: 'hmac', secret: prompt('The secret of the group?') ?? '' },
});
const y = await rpcAsync('server', predict, [tensor([1, 2, 3])], { agent });
document.body.textContent = JSON.stringify(y.toArray());
agent.on('fenced', () => location.reload()); // the page slept for too long, and is no member any more
// A page that is kept for the way back goes on when it is shown again, or is fenced.
addEventListener('pagehide', ({ persisted }) => {
  if (!persisted) void agent.shutdown({ graceful: false });
});
