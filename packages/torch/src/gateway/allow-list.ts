/** @file What a gateway lets through: functions by name, with the methods of what they make; and workers. */
import { RpcError } from '@backwire/rpc';
import { nameOf, show } from '@backwire/rpc/internal';
import type { Named } from '@backwire/tensor';
import { shownName } from './names.ts';

/** A class or function whose objects may be used from outside, and how. */
export interface GatewayObjects {
  /** Makes them, or gives references to such. May be called itself. */
  readonly make: Named;
  /** The methods that may be called on them, and on what these methods leave behind. `toHere()` may always be. */
  readonly methods: readonly string[];
}

/** One function that may be called. */
export interface Allowed {
  readonly fn: Named;
  /** As Python programs write it. */
  readonly shown: string;
  readonly methods: ReadonlySet<string>;
}

const METHOD = /^[A-Za-z]\w*$/;
const NONE: ReadonlySet<string> = new Set();

export class AllowList {
  /** The gateway's name, for messages. */
  private readonly gateway: string;
  private readonly byName = new Map<string, Allowed>();
  private readonly workers: ReadonlySet<string> | undefined;

  /** @throws TypeError, RpcError 'invalid-argument' for what is no such list. */
  constructor(gateway: string, serve: readonly (Named | GatewayObjects)[], workers: readonly string[] | undefined) {
    this.gateway = gateway;
    if (!Array.isArray(serve))
      throw new TypeError("serveGateway() needs the list of what may be called: { serve: [py('model.predict')] }");
    for (const each of serve as readonly (Named | GatewayObjects)[]) this.add(each);
    if (workers !== undefined && !(Array.isArray(workers) && workers.every((name) => typeof name === 'string')))
      throw new TypeError('the workers that a gateway lets be called are a list of names');
    this.workers = workers === undefined ? undefined : new Set(workers);
  }

  /** @throws RpcError 'permission-denied' */
  find(name: string): Allowed {
    const allowed = this.byName.get(name);
    if (allowed !== undefined) return allowed;
    const text = `gateway '${this.gateway}' does not serve '${shownName(name).slice(0, MAX_SHOWN)}': name it in \`serve\` of serveGateway()`;
    throw new RpcError('permission-denied', text);
  }

  /** @throws RpcError 'permission-denied' */
  checkMethod({ shown, methods }: Allowed, method: string): void {
    if (methods.has(method)) return;
    const text = `gateway '${this.gateway}' does not serve the method '${method.slice(0, MAX_SHOWN)}' of what '${shown}' makes: name it in serveGateway({ serve: [{ make, methods }] })`;
    throw new RpcError('permission-denied', text);
  }

  /** @throws RpcError 'permission-denied' */
  checkWorker(name: string): void {
    if (this.workers?.has(name) !== false) return;
    const text = `gateway '${this.gateway}' does not let worker '${name}' be called: name it in \`workers\` of serveGateway()`;
    throw new RpcError('permission-denied', text);
  }

  private add(given: Named | GatewayObjects): void {
    const plain = typeof given === 'object' && given !== null && 'make' in given ? given : undefined;
    const fn = plain?.make ?? (given as Named);
    const name = nameOf(fn);
    const shown = shownName(name);
    if (this.byName.has(name)) throw new RpcError('invalid-argument', `'${shown}' is in \`serve\` twice`);
    const methods = plain === undefined ? NONE : methodsOf(plain, shown);
    this.byName.set(name, { fn, shown, methods });
  }
}

/** A name of a peer in a message. */
const MAX_SHOWN = 80;

function methodsOf({ methods }: GatewayObjects, shown: string): ReadonlySet<string> {
  if (!Array.isArray(methods)) throw new TypeError(`the methods of what '${shown}' makes are a list of names`);
  const wrong = (methods as readonly unknown[]).find((method) => typeof method !== 'string' || !METHOD.test(method));
  if (wrong === undefined) return new Set(methods);
  throw new RpcError(
    'invalid-argument',
    `the methods of what '${shown}' makes have names that begin with a letter, got ${show(wrong)}`,
  );
}
