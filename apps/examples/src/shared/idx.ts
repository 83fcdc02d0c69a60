/** @file Reads IDX files, the format MNIST comes in, and checks everything about them. */
import { readFileSync } from 'node:fs';

/** A file of unsigned bytes with a shape. */
export interface IdxFile {
  readonly dims: readonly number[];
  /** Row-major, `dims` multiplied together. */
  readonly bytes: Uint8Array;
}

/** A data file that is missing, cut off or not what it should be. The message names it. */
export class DataFileError extends Error {
  override readonly name = 'DataFileError';
}

const UNSIGNED_BYTE = 8;

/**
 * Reads the IDX file at `path`, which has to have the dimensions `dims`.
 * @throws DataFileError naming the file, what was expected and what was found.
 */
export function readIdx(path: string, dims: readonly number[]): IdxFile {
  const bytes = readWhole(path);
  const headerBytes = 4 + 4 * dims.length;
  if (bytes.length < headerBytes) {
    throw new DataFileError(
      `the data file '${path}' is truncated: its header needs ${headerBytes} bytes, it has ${bytes.length}`,
    );
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const magic = view.getUint32(0);
  const expected = (UNSIGNED_BYTE << 8) | dims.length;
  if (magic !== expected) {
    throw new DataFileError(
      `the data file '${path}' has the magic number ${hex(magic)}, not ${hex(expected)}: it is not such an IDX file`,
    );
  }
  const found = dims.map((_, axis) => view.getUint32(4 + 4 * axis));
  if (found.some((size, axis) => size !== dims[axis])) {
    throw new DataFileError(`the data file '${path}' has the shape ${found.join(' x ')}, not ${dims.join(' x ')}`);
  }
  const length = dims.reduce((product, size) => product * size, 1);
  if (bytes.length < headerBytes + length) {
    throw new DataFileError(
      `the data file '${path}' is truncated: ${headerBytes + length} bytes are expected, it has ${bytes.length}`,
    );
  }
  if (bytes.length > headerBytes + length) {
    throw new DataFileError(
      `the data file '${path}' has ${bytes.length} bytes, ${bytes.length - headerBytes - length} too many`,
    );
  }
  return { dims: found, bytes: bytes.subarray(headerBytes) };
}

function readWhole(path: string): Uint8Array {
  try {
    return readFileSync(path);
  } catch (error) {
    const missing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    throw new DataFileError(
      missing
        ? `the data file '${path}' does not exist`
        : `the data file '${path}' cannot be read: ${(error as Error).message}`,
      { cause: error },
    );
  }
}

function hex(value: number): string {
  return `0x${value.toString(16).padStart(8, '0')}`;
}
