/** @file What stands in the Backwire group for an object of the torch group. */
import { StandIn, type Within } from '@backwire/rref/internal';
import type { TorchRRef } from '../rrefs/handle.ts';
import type { Allowed } from './allow-list.ts';

/** What these need of their gateway. */
export interface ObjectHost {
  /** Asks something of the torch group, about this object. Rejects as a call through the gateway does. */
  ask(
    of: PythonObject,
    method: string | undefined,
    args: readonly unknown[],
    run: (args: readonly unknown[]) => Promise<unknown>,
  ): Promise<unknown>;
  /** The same, of what leaves its result behind. */
  make(
    of: PythonObject,
    method: string,
    args: readonly unknown[],
    run: (args: readonly unknown[]) => TorchRRef<unknown>,
  ): Promise<PythonObject>;
}

/** Holds an RRef of the torch group for as long as anybody in the Backwire group holds one of this. */
export class PythonObject extends StandIn {
  readonly local: TorchRRef<unknown>;
  /** What made it, which says what may be done with it. */
  readonly allowed: Allowed;
  readonly host: ObjectHost;

  constructor(host: ObjectHost, local: TorchRRef<unknown>, allowed: Allowed) {
    super();
    this.host = host;
    this.local = local;
    this.allowed = allowed;
  }

  fetch(within: Within): Promise<unknown> {
    return this.host.ask(this, undefined, [], () => this.local.toHere(within));
  }

  typeName(within: Within): Promise<string> {
    return this.host.ask(this, undefined, [], () => this.local.typeName(within)) as Promise<string>;
  }

  call(method: string, args: readonly unknown[], within: Within): Promise<unknown> {
    return this.host.ask(this, method, args, (given) =>
      this.local.host.invoke(this.local, 'sync', method, given, within),
    );
  }

  callAndKeep(method: string, args: readonly unknown[], within: Within): Promise<PythonObject> {
    return this.host.make(
      this,
      method,
      args,
      (given) => this.local.host.invokeRemotely(this.local, method, given, within) as TorchRRef<unknown>,
    );
  }

  release(): void {
    this.local.dispose();
  }
}
