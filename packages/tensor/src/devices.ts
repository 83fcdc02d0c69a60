/** @file The devices of this process beside the cpu, and where the results of operations on them go. */
import { checkArguments } from './arguments.ts';
import { currentDevice } from './backends/current.ts';
import type { Backend, DeviceBuffer, DeviceDType } from './backends/backend.ts';
import { isDeviceName, someElsewhere, type Device } from './device.ts';
import { DTypeError, InvariantError } from './errors.ts';
import type { Storage } from './storage.ts';
import type { Tensor } from './tensor.ts';

const hosts = new Map<Device, HostDevice>();

/**
 * Opens a device in host memory of its own, such as 'host:0': tensors go there by `to('host:0')`, operations on them give results there,
 * and others may not be mixed with them. It computes as the cpu does: for trying device maps out where there is no accelerator. Opening it
 * again does nothing.
 * @throws DTypeError for a name that is none.
 */
export function openHostDevice(name: string): void {
  checkArguments('openHostDevice', [name]);
  if (!isDeviceName(name) || name === 'cpu')
    throw new DTypeError(`'${String(name)}' is no name for a device: 'host:0' is`);
  if (!hosts.has(name)) hosts.set(name, new HostDevice(name));
}

/** The devices that tensors can be moved to: the cpu, that of the backend if it has one, and those that were opened. */
export function devices(): Device[] {
  return [...new Set<Device>(['cpu', currentDevice(), ...hosts.keys()])];
}

/** How many bytes lie on an opened device. @throws DTypeError where there is none of that name. */
export function deviceMemory(device: Device): number {
  checkArguments('deviceMemory', [device]);
  const host = hosts.get(device);
  if (host === undefined) throw noDevice(device);
  return host.bytes;
}

/** @throws DTypeError for a device that this process does not have. */
export function checkDevice(device: Device): void {
  if (device !== 'cpu' && !hosts.has(device) && device !== currentDevice()) throw noDevice(device);
}

/** Puts a storage, which nobody else has, on a device. */
export function place(storage: Storage, device: Device): void {
  const host = hosts.get(device);
  storage.settleOn(device, host);
}

function noDevice(device: string): DTypeError {
  return new DTypeError(`no device '${device}' here; there are ${devices().join(', ')}`);
}

let lenient = 0;

/** Runs a derivative: what it makes itself lies on the cpu, and may meet what lies on a device. */
export function inDerivative<T>(fn: () => T): T {
  if (!someElsewhere()) return fn();
  lenient++;
  try {
    return fn();
  } finally {
    lenient--;
  }
}

/**
 * The device that the operation `name` on `inputs` runs on. A number in a tensor of no dimensions may come from the cpu, and so may anything
 * where the backend's own device is meant, which takes what it needs.
 * @throws DTypeError for inputs on different devices.
 */
export function deviceOf(inputs: readonly Tensor[]): Device {
  let device: Device = 'cpu';
  for (const t of inputs) if (t.device !== 'cpu') device = t.device;
  if (device === 'cpu') return device;
  for (const t of inputs) {
    if (t.device === device || (t.device === 'cpu' && (t.rank === 0 || lenient > 0 || device === currentDevice())))
      continue;
    const found = [...new Set(inputs.map((input) => input.device))];
    throw new DTypeError(
      `Expected all tensors to be on the same device, but found at least two devices, ${found.slice(0, 2).join(' and ')}! Move them with to()`,
    );
  }
  return device;
}

/** The result of an operation on that device is there, unless it is a view of an input, which is already. */
export function bring<T extends Tensor>(output: T, device: Device): T {
  const own = output.sparse === undefined ? [output] : [output.sparse.indices, output.sparse.values];
  for (const { storage } of own) if (storage.device === 'cpu') place(storage, device);
  return output;
}

/** Memory that is not the process's ordinary one, though the process can address it. */
class HostDevice implements Backend {
  readonly name = 'cpu';
  readonly device: Device;
  readonly aliasesUploads = false;
  readonly worth: Backend['worth'];
  bytes = 0;
  private readonly memory = new Map<object, Uint8Array>();

  constructor(device: Device) {
    this.device = device;
    const never = Infinity;
    this.worth = {
      elementwise: never,
      broadcast: never,
      reduce: never,
      transpose: never,
      gather: never,
      matmul: never,
      update: never,
    };
  }

  upload(bytes: Uint8Array, dtype: DeviceDType): DeviceBuffer {
    const dataId = {};
    this.memory.set(dataId, bytes.slice());
    this.bytes += bytes.length;
    return { dataId, dtype, nbytes: bytes.length };
  }

  view({ dataId }: DeviceBuffer): Uint8Array {
    const bytes = this.memory.get(dataId);
    if (bytes === undefined) throw new InvariantError('device memory was freed');
    return bytes;
  }

  renew(buffer: DeviceBuffer): DeviceBuffer {
    return buffer;
  }

  download(buffer: DeviceBuffer): Uint8Array {
    return this.view(buffer).slice();
  }

  free({ dataId, nbytes }: DeviceBuffer): void {
    if (this.memory.delete(dataId)) this.bytes -= nbytes;
  }

  has(): boolean {
    return false;
  }

  run(): DeviceBuffer {
    throw new InvariantError('a host device has no kernels');
  }
}
