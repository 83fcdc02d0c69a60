/** @file Agents of one process whose dials go through a proxy before whom they dial. */
import { ChaosProxy, type ProxyAddress } from '@backwire/testing';
import type { Agent } from '../src/agent/agent.ts';
import type { RpcAgent } from '../src/index.ts';
import type { Transport } from '../src/transports/transport.ts';

/** Puts a proxy before every address of `agents`, which dial it from now on. The proxies are added to `proxies`, in that order: whoever calls closes them. */
export async function throughProxies(
  agents: readonly RpcAgent[],
  seed: number | string,
  proxies: ChaosProxy[],
): Promise<void> {
  const routes = new Map<string, string>();
  for (const { endpoint } of agents.flatMap((agent) => (agent as Agent).listeners)) {
    const proxy = await ChaosProxy.start({ target: addressOf(endpoint), seed: `${seed} ${routes.size}` });
    proxies.push(proxy);
    const { address } = proxy;
    const scheme = endpoint.slice(0, endpoint.indexOf(':'));
    routes.set(endpoint, 'path' in address ? `unix://${address.path}` : `${scheme}://127.0.0.1:${address.port}`);
  }
  for (const agent of agents) redirect(agent, (endpoint) => routes.get(endpoint) ?? endpoint);
}

/** Makes every dial of `agent` go where `to` says. */
export function redirect(agent: RpcAgent, to: (endpoint: string) => string): void {
  const inside = agent as unknown as { transports: readonly Transport[] };
  inside.transports = inside.transports.map((each) => ({
    name: each.name,
    domain: each.domain,
    isViable: () => true,
    listen: (options, onConnection) => each.listen(options, onConnection),
    dial: (endpoint, options) => each.dial(to(endpoint), options),
  }));
}

function addressOf(endpoint: string): ProxyAddress {
  const rest = endpoint.slice(endpoint.indexOf('://') + 3);
  return endpoint.startsWith('unix:') ? { path: rest } : { port: Number(rest.split(':').at(-1)) };
}
