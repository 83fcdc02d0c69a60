/** @file Starts agents in browsers: members of a group that dial the others by WebSocket and are dialled by nobody. */
import type { RpcAgent } from '../base/rpc-agent.ts';
import { becomeDefault } from './default-agent.ts';
import { invalidArgument } from '../base/errors.ts';
import { newId } from '../base/ids.ts';
import { inLoop } from '../liveness/keep-alive.ts';
import type { Security } from '../base/options.ts';
import type { RpcOptions } from './rpc-options.ts';
import { STORE_GROUP } from '../security/handshake.ts';
import { keyOf, keysOf } from '../security/keys.ts';
import type { ResolvedSecurity } from '../security/policy.ts';
import { checkGiven, start, type Surroundings } from './start.ts';
import { splitAddress } from '../stores/address.ts';
import { connectStore } from '../stores/embedded-client.ts';
import { memoryStore } from '../stores/memory.ts';
import { prefixStore } from '../stores/prefix.ts';
import type { Transport } from '../transports/transport.ts';
import { webSocketClientTransport } from '../transports/websocket-client.ts';

/** A page shares its machine with nobody it could tell apart. */
const page = `browser/${newId()}`;

const BROWSER: Surroundings = {
  env: {},
  host: () => page,
  security,
  transports: ({ transports = ['ws'] }, { keys }, group) => transports.map((name) => transportOf(name, group, keys)),
  store: async (given, { security: { keys }, signal, timeoutMs }) => {
    if (typeof given === 'object') return { store: given, owned: false };
    if (given?.startsWith('memory://') === true)
      return { store: memoryStore(given.slice('memory://'.length)), owned: true };
    const { bare, prefix, ws } = splitAddress(given ?? '');
    const endpoint = /^wss?:/.test(bare) ? bare : ws;
    if (endpoint === undefined) {
      throw invalidArgument(
        `a browser reaches the store at 'ws://host:port/backwire', or by an address that says where ('…?ws=…'); got ${given ?? 'none'}. BACKWIRE_STORE_WS makes whoever serves the store serve browsers`,
      );
    }
    const transport = webSocketClientTransport({ group: STORE_GROUP, keys });
    const store = await connectStore({ endpoint, transport, keys, signal, timeoutMs });
    return { store: prefix === '' ? store : prefixStore(store, prefix, { owned: true }), owned: true };
  },
  keepAlive: (store, lease, { ageKey }) => inLoop(store, lease, ageKey),
  knock: undefined,
  isProcessGone: () => false,
};

/** As in Node, by WebSocket: `store` is 'ws://host:port/backwire', and `security.secret` the group's secret. @public */
export async function initRpc(options: RpcOptions): Promise<RpcAgent> {
  checkGiven(options, 'initRpc');
  return becomeDefault(() => start(options, BROWSER));
}

/** Starts an agent without touching the default: several in one page. @public */
export async function createAgent(options: RpcOptions): Promise<RpcAgent> {
  checkGiven(options, 'createAgent');
  return start(options, BROWSER);
}

/** There is no environment to find a secret in: the page has to be given one, or to say that it needs none. */
function security(given: Security | undefined): ResolvedSecurity {
  const base = { keys: undefined, mtls: undefined, checksums: false, automatic: false };
  if (given?.mode === 'none' && given.iUnderstand) return { ...base, mode: 'none' };
  if ((given?.mode === 'psk' || given?.mode === 'hmac') && given.secret !== undefined) {
    const { secret } = given;
    const keys = typeof secret === 'string' ? keysOf(secret, 'security.secret') : ([keyOf(secret)] as const);
    return { ...base, mode: 'hmac', keys };
  }
  throw invalidArgument("in a browser, security is { mode: 'hmac', secret } or { mode: 'none', iUnderstand: true }");
}

function transportOf(name: string, group: string, keys: ResolvedSecurity['keys']): Transport {
  if (name === 'ws') return webSocketClientTransport({ group, keys });
  throw invalidArgument(`a browser has the transport 'ws' alone, not '${name}'`);
}
