/** @file Names of devices, and whether any storage ever was on one. */

/**
 * Where a tensor lives: 'cpu', or a type of device and an index ('gpu:0', 'webgpu:0'). The wasm backend counts as the cpu, and so does
 * TensorFlow without a GPU: their memory is the process's own.
 */
export type Device = 'cpu' | `${string}:${number}`;

const NAME = /^[a-z][a-z0-9]{0,15}:(?:0|[1-9]\d{0,3})$/;

/** Whether a text may name a device: 'cpu', or a type and an index below 10,000. */
export function isDeviceName(text: unknown): text is Device {
  return text === 'cpu' || (typeof text === 'string' && NAME.test(text));
}

let some = false;

/** Whether any storage ever was on a device: while none was, operations need not look. */
export function someElsewhere(): boolean {
  return some;
}

export function noteElsewhere(): void {
  some = true;
}
