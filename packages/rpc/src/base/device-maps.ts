/** @file Which device of a peer a tensor goes to. */
import type { Device } from '@backwire/tensor';
import { isDeviceName } from '@backwire/tensor/internal';
import { MAX_DEVICE_MAP } from '@backwire/wire/internal';
import { invalidArgument } from './errors.ts';
import { show } from './options.ts';

type Maps = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** The maps of one agent, by peer. Tensors in main memory need none. */
export class DeviceMaps {
  private readonly maps = new Map<string, ReadonlyMap<string, Device>>();
  /** The reverse of the maps that callers have for this worker: where their answers go. */
  private readonly answers = new Map<string, ReadonlyMap<string, Device>>();
  /** One function a peer and way, made when first asked for. */
  private readonly requests = new Map<string, (device: Device) => Device>();
  private readonly responses = new Map<string, (device: Device) => Device>();
  private readonly gradients = new Map<string, (device: Device) => Device>();
  /** As given, for the other members; undefined when there is none. */
  readonly given: Maps | undefined;

  /** @throws RpcError 'invalid-argument' for what is no device, or two devices that go to one. */
  constructor(given: Maps = {}) {
    this.given = Object.keys(given).length === 0 ? undefined : given;
    for (const [peer, map] of Object.entries(given)) {
      if (typeof map !== 'object' || (map as unknown) === null || Array.isArray(map))
        throw new TypeError(`deviceMaps: '${peer}' has an object of devices by device, got ${show(map)}`);
      const used = new Map<string, string>();
      for (const [from, to] of Object.entries(map)) {
        if (!isDeviceName(from) || !isDeviceName(to)) {
          throw invalidArgument(`deviceMaps: '${from}' to '${to}' for '${peer}' is not between devices`);
        }
        const other = used.get(to);
        if (other !== undefined) {
          const text = `\`device_map\` only supports 1-to-1 mapping, trying to map ${other} and ${from} to ${to}`;
          throw invalidArgument(text);
        }
        used.set(to, from);
      }
      this.maps.set(peer, new Map(Object.entries(map) as [string, Device][]));
    }
  }

  /** @throws RpcError 'invalid-argument' for a map to a worker that is not in the group. */
  check(self: string, names: ReadonlySet<string>): void {
    for (const peer of this.maps.keys()) {
      if (!names.has(peer)) {
        throw invalidArgument(`Node ${self} has invalid target node names in its device maps: '${peer}'`);
      }
    }
  }

  /** `peer` said how it maps its devices to this worker's; what is not between devices is not believed. */
  announced(peer: string, map: unknown): void {
    this.answers.delete(peer);
    if (typeof map !== 'object' || map === null) return;
    const reverse = new Map<string, Device>();
    for (const [from, to] of Object.entries(map).slice(0, MAX_DEVICE_MAP)) {
      if (isDeviceName(from) && isDeviceName(to)) reverse.set(to, from);
    }
    if (reverse.size > 0) this.answers.set(peer, reverse);
  }

  /** `peer` has gone: a group whose workers come under new names would otherwise keep something of each. */
  forget(peer: string): void {
    for (const map of [this.answers, this.requests, this.responses, this.gradients]) map.delete(peer);
  }

  /** Where tensors for `peer` go: requests by the own map, answers by the reverse of the caller's. Main memory goes to main memory. */
  to(peer: string, what: 'Request' | 'Response'): (device: Device) => Device {
    const known = what === 'Request' ? this.requests : this.responses;
    let mapping = known.get(peer);
    if (mapping === undefined) known.set(peer, (mapping = this.mapping(peer, what)));
    return mapping;
  }

  /** Where gradients go: the way back of what was sent, by whichever map it was. */
  gradientsTo(peer: string): (device: Device) => Device {
    let mapping = this.gradients.get(peer);
    if (mapping === undefined) this.gradients.set(peer, (mapping = this.mapping(peer, 'Request', true)));
    return mapping;
  }

  private mapping(peer: string, what: 'Request' | 'Response', either = false): (device: Device) => Device {
    const maps = what === 'Request' ? this.maps : this.answers;
    return (device) => {
      const target = maps.get(peer)?.get(device) ?? (either ? this.answers.get(peer)?.get(device) : undefined);
      if (target !== undefined || device === 'cpu') return target ?? device;
      throw invalidArgument(
        `RPC only supports CPU tensors by default, please move your tensors to CPU before sending them over RPC, or set \`deviceMaps\` to explicitly configure device mapping. ${what} device mapping is not available for destination ${peer}, but found tensor on device: ${device}`,
      );
    };
  }
}
