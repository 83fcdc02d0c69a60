/** @file The sign of life of a lease in a file: written over what is there, since a disk that is full has no room for another. */
import { writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';

/** All are as long as each other, or one would leave a part of a longer one behind it. */
const BEAT_CHARS = 40;

/** Another text than the last one. */
export async function writeBeat(path: string, text: string): Promise<void> {
  const beat = text.padEnd(BEAT_CHARS);
  try {
    await writeFile(path, beat, { flag: 'r+' });
  } catch (error) {
    if (!isMissing(error)) throw error;
    await writeFile(path, beat);
  }
}

/** For a thread, which has nothing else to do. */
export function writeBeatSync(path: string, text: string): void {
  const beat = text.padEnd(BEAT_CHARS);
  try {
    writeFileSync(path, beat, { flag: 'r+' });
  } catch (error) {
    if (!isMissing(error)) throw error;
    writeFileSync(path, beat);
  }
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT';
}
