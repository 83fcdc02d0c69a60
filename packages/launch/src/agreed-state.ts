/** @file The state that the launchers of a group agree on, in their store: changed by whoever is faster, told again where it was lost. */
import type { Store } from '@backwire/rpc';
import { LaunchError } from './errors.ts';
import { HOST_LEASE_MS } from './limits.ts';
import { encode, readState } from './rendezvous-codec.ts';
import type { Rendezvous } from './rendezvous.ts';

/** As it was found: undefined where there is none. */
interface Found {
  readonly state: Rendezvous | undefined;
  readonly bytes: Uint8Array | undefined;
}

export class AgreedState {
  private readonly store: Store;
  private readonly key: string;
  private readonly learn: (state: Rendezvous) => void;

  /** @param learn told of what a change has led to. */
  constructor(store: Store, key: string, learn: (state: Rendezvous) => void) {
    this.store = store;
    this.key = key;
    this.learn = learn;
  }

  async read(): Promise<Found> {
    const bytes = await this.store.get(this.key);
    return { state: bytes === undefined ? undefined : readState(bytes), bytes };
  }

  /** Changes it, as often as someone else is faster. @throws LaunchError where there is none. */
  step(change: (state: Rendezvous) => Rendezvous): Promise<void> {
    return this.stepFrom((state) => {
      if (state === undefined) throw forgotten();
      return change(state);
    });
  }

  /** As `step`, also where there is none. */
  async stepFrom(change: (state: Rendezvous | undefined) => Rendezvous | Promise<Rendezvous>): Promise<void> {
    for (;;) {
      const { state, bytes } = await this.read();
      const changed = await change(state);
      if (changed === state) return this.learn(changed);
      if (await this.write(changed, bytes)) return;
    }
  }

  /** Tells the store `known` again where it has none, or an earlier one of that run. False when there is nothing to be told. */
  async restore(known: Rendezvous, { state, bytes }: Found): Promise<boolean> {
    if (state !== undefined && (state.token !== known.token || state.version >= known.version)) return false;
    await this.write(known, bytes);
    return true;
  }

  /** Deletes it while it is of the run of `state`: another group of the name may begin. False where it is of another. */
  async remove(state: Rendezvous): Promise<boolean> {
    const { store, key } = this;
    const found = await store.get(key);
    if (found === undefined || readState(found).token !== state.token) return false;
    const brief = await store.lease(HOST_LEASE_MS);
    await store.compareAndSet(key, found, found, { lease: brief });
    await brief.revoke();
    return true;
  }

  /** Whether nobody was faster. */
  private async write(state: Rendezvous, before: Uint8Array | undefined): Promise<boolean> {
    const next = { ...state, version: state.version + 1 };
    const { ok } = await this.store.compareAndSet(this.key, before ?? null, encode(next));
    if (ok) this.learn(next);
    return ok;
  }
}

export function forgotten(): LaunchError {
  return new LaunchError('the state of the group is no longer in the store');
}
