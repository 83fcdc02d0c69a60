/** @file How tensors of a kind of device become bytes and come back, for devices whose memory the host cannot read. */
import { type Device, type Tensor } from '@backwire/tensor';
import { isDeviceName } from '@backwire/tensor/internal';

/** Moves the bytes of tensors on one type of device ('gpu' for 'gpu:0'). */
export interface DeviceTypeConverter {
  /** The bytes of the tensor's whole storage; they must stay unchanged until `release`, which is called exactly once. */
  prepareTensorForSending(tensor: Tensor): { bytes: Uint8Array; release(): void };
  /** Memory of `nbytes` bytes into which the bytes of a tensor meant for `device` are received. */
  allocateTensorForReceiving(nbytes: number, device: Device): Uint8Array;
}

const KEY = Symbol.for('backwire.deviceTypeConverters');
const holder = globalThis as { [KEY]?: Map<string, DeviceTypeConverter> };
const converters = (holder[KEY] ??= new Map<string, DeviceTypeConverter>());

/**
 * Sets the converter of a type of device; the last one registered counts. Memory of the cpu needs none.
 * @throws TypeError for what is no type of device, or no converter.
 */
export function registerDeviceTypeConverter(deviceType: string, converter: DeviceTypeConverter): void {
  if (typeof deviceType !== 'string' || deviceType === 'cpu' || !isDeviceName(`${deviceType}:0`))
    throw new TypeError(`a converter is for a type of device, such as 'gpu' of 'gpu:0'; got ${String(deviceType)}`);
  const given = (converter ?? {}) as Partial<DeviceTypeConverter>;
  for (const method of ['prepareTensorForSending', 'allocateTensorForReceiving'] as const)
    if (typeof given[method] !== 'function') throw new TypeError(`a device converter has a method ${method}()`);
  converters.set(deviceType, converter);
}

/** The converter of a type of device ('gpu'), or undefined. */
export function getDeviceTypeConverter(deviceType: string): DeviceTypeConverter | undefined {
  return converters.get(deviceType);
}
