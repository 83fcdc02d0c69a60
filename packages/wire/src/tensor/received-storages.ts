/** @file Where the storages of a message belong, the memory they are received in, and how they get to their devices. */
import { type Device } from '@backwire/tensor';
import { Storage, type StorageOptions, checkDevice, place } from '@backwire/tensor/internal';
import { type BufferPool } from '../bytes/buffer-pool.ts';
import { getDeviceTypeConverter, type DeviceTypeConverter } from './device-converters.ts';
import { decodeError } from '../errors.ts';
import { type TensorDescriptor } from './descriptor.ts';

/** The converter of a device's type. */
export function converterOf(device: Device): DeviceTypeConverter | undefined {
  return device === 'cpu' ? undefined : getDeviceTypeConverter(device.slice(0, device.indexOf(':')));
}

/**
 * The device of each storage: that of the first tensor that views it; undefined when all of them belong to the cpu.
 * @throws WireError 'decode-error' for a device that neither this process nor a converter knows, before any memory is taken.
 */
export function storageDevices(tensors: readonly TensorDescriptor[]): readonly (Device | undefined)[] | undefined {
  if (tensors.every(isOfCpu)) return undefined;
  const devices: (Device | undefined)[] = [];
  const note = (tensor: TensorDescriptor): void => {
    if (tensor.sparse !== undefined) {
      note(tensor.sparse.indices);
      note(tensor.sparse.values);
    } else devices[tensor.storage] ??= tensor.device;
  };
  tensors.forEach(note);
  for (const device of devices) if (device !== undefined) checkHere(device);
  return devices;
}

function isOfCpu({ device, sparse }: TensorDescriptor): boolean {
  return (
    device === 'cpu' && (sparse === undefined || (sparse.indices.device === 'cpu' && sparse.values.device === 'cpu'))
  );
}

function checkHere(device: Device): void {
  if (converterOf(device) !== undefined) return;
  try {
    checkDevice(device);
  } catch (cause) {
    throw decodeError(`a tensor for the device ${device}, which this worker does not have`, cause);
  }
}

/** Memory for the bytes of one storage. Only what came from the pool goes back there. */
export function receiveMemory(nbytes: number, device: Device | undefined, pool: BufferPool): Uint8Array {
  const converter = device === undefined ? undefined : converterOf(device);
  if (converter === undefined || device === undefined) return pool.take(nbytes);
  const memory = converter.allocateTensorForReceiving(nbytes, device);
  if (memory.length !== nbytes)
    throw decodeError(`the converter for ${device} gave ${memory.length} bytes instead of ${nbytes}`);
  return memory;
}

/** Whether a storage's memory is a pool's. */
export function isPooled(device: Device | undefined): boolean {
  return device === undefined || converterOf(device) === undefined;
}

/** The storage over received memory, on its device. */
export function storageOn(bytes: Uint8Array, device: Device | undefined, options: StorageOptions): Storage {
  const storage = new Storage(bytes, isPooled(device) ? options : {});
  if (device !== undefined && device !== 'cpu') place(storage, device);
  return storage;
}
