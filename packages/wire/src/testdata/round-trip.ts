/** @file A value written and read again. */
import { decodeValue, encodeValue } from '../index.ts';

export function roundTrip(value: unknown): unknown {
  const { bytes, tensors } = encodeValue(value);
  return decodeValue(bytes, tensors);
}
