/** @file The sign of life of a lease in a file: written over what is there, since a disk that is full has no room for another. */
import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';

/** All are as long as each other, or one would leave a part of a longer one behind it. */
const BEAT_CHARS = 40;
/** Made where it is missing, and never emptied. */
const OVER = constants.O_WRONLY | constants.O_CREAT;

/** Another text than the last one. */
export async function writeBeat(path: string, text: string): Promise<void> {
  await writeFile(path, text.padEnd(BEAT_CHARS), { flag: OVER });
}

/** For a thread, which has nothing else to do. */
export function writeBeatSync(path: string, text: string): void {
  const file = openSync(path, OVER);
  try {
    writeSync(file, text.padEnd(BEAT_CHARS));
  } finally {
    closeSync(file);
  }
}
