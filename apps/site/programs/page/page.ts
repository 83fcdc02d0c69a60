import { createAgent } from 'backwire';
import { count } from './count.ts';

const agent = await createAgent({
  name: `page-${crypto.randomUUID()}`,
  group: 'pages',
  membership: 'dynamic',
  store: 'ws://127.0.0.1:29501/backwire',
  security: { mode: 'hmac', secret: prompt('The secret of the group?') ?? '' },
  serve: [count], // what others may call here
});
document.body.textContent = `${agent.name} is at work`;
agent.on('fenced', () => location.reload()); // the tab slept for too long, and is no member any more
// A page that is kept for the way back goes on when it is shown again, or is fenced.
addEventListener('pagehide', ({ persisted }) => {
  if (!persisted) void agent.shutdown({ graceful: false });
});
