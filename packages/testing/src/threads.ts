/** @file Whether the checked-in text of a package's threads is what their sources give. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../../..');

/** The text of each file in `src/gen` of `packages/<name>`, by the file's name, as it is and as `npm run generate` would write it now. */
export function threadTexts(name: string): { checkedIn: Record<string, string>; fresh: Record<string, string> } {
  const folder = join(root, 'packages', name);
  const temporary = mkdtempSync(join(tmpdir(), 'backwire-threads-'));
  try {
    const program = join(root, 'tools/threads.ts');
    execFileSync(process.execPath, ['--import', 'tsx', program, '--output', temporary], { cwd: folder });
    return { checkedIn: textsIn(join(folder, 'src/gen')), fresh: textsIn(join(temporary, 'src/gen')) };
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}

function textsIn(folder: string): Record<string, string> {
  return Object.fromEntries(readdirSync(folder).map((file) => [file, readFileSync(join(folder, file), 'utf8')]));
}
