/** @file Which device of a peer a tensor goes to. */
import type { Device } from '@backwire/tensor';
import { RpcError } from './errors.ts';

type Maps = Readonly<Record<string, Readonly<Record<string, string>>>>;

const DEVICE = /^(cpu|gpu:\d{1,4})$/;

/** The maps of one agent, by peer. Tensors in main memory need none. */
export class DeviceMaps {
  private readonly maps = new Map<string, ReadonlyMap<string, Device>>();

  /** @throws RpcError 'invalid-argument' for what is no device, or two devices that go to one. */
  constructor(given: Maps = {}) {
    for (const [peer, map] of Object.entries(given)) {
      const used = new Map<string, string>();
      for (const [from, to] of Object.entries(map)) {
        if (!DEVICE.test(from) || !DEVICE.test(to)) {
          throw new RpcError(
            'invalid-argument',
            `deviceMaps: '${from}' to '${to}' for '${peer}' is not between devices`,
          );
        }
        const other = used.get(to);
        if (other !== undefined) {
          const text = `\`device_map\` only supports 1-to-1 mapping, trying to map ${other} and ${from} to ${to}`;
          throw new RpcError('invalid-argument', text);
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
        throw new RpcError(
          'invalid-argument',
          `Node ${self} has invalid target node names in its device maps: '${peer}'`,
        );
      }
    }
  }

  /** Where tensors for `peer` go; main memory goes to main memory. */
  to(peer: string, what: 'Request' | 'Response'): (device: Device) => Device {
    const map = what === 'Request' ? this.maps.get(peer) : undefined;
    return (device) => {
      const target = map?.get(device);
      if (target !== undefined || device === 'cpu') return target ?? device;
      throw new RpcError(
        'invalid-argument',
        `tensors travel from main memory by default: move them to the cpu before sending them, or set deviceMaps. ${what} device mapping is not available for destination ${peer}, but found tensor on device: ${device}`,
      );
    };
  }
}
