/** @file In which room of its package a file is, and whether an import leads to a room above. */
import { ROOMS } from './layout.ts';
import type { Path } from './workspace.ts';

/** The rooms of each package, from the top down. */
export type Layout = Readonly<Record<string, readonly string[]>>;

/** Where a file of a package is. */
export interface Place {
  readonly package: string;
  /** The folder under `src`, '' for a file beside the folders, '..' for one outside of `src`. */
  readonly room: string;
}

/** Follows the arrows that leave a file. */
export type Follow = (file: Path) => Iterable<Path>;

/** The place of a file; nothing for what is in no package. A folder inside a room is a room of its own where the layout names it. */
export function placeOf(path: Path, layout: Layout = ROOMS): Place | undefined {
  const [group, name, ...inside] = path.split('/');
  if (group !== 'packages' || name === undefined || inside.length === 0) return undefined;
  if (inside[0] !== 'src') return { package: name, room: '..' };
  const folders = inside.slice(1, -1);
  for (let depth = folders.length; depth > 1; depth--) {
    const room = folders.slice(0, depth).join('/');
    if (layout[name]?.includes(room) === true) return { package: name, room };
  }
  return { package: name, room: folders[0] ?? '' };
}

/** Tests may import anything, and nobody imports them. */
export function isTest(path: Path): boolean {
  return path.endsWith('.test.ts');
}

/** The folder of a source that has no place in the layout. */
export function unlisted(path: Path, layout: Layout = ROOMS): Place | undefined {
  const place = placeOf(path, layout);
  if (place === undefined || place.room === '' || place.room === '..') return undefined;
  return layout[place.package]?.includes(place.room) === true ? undefined : place;
}

/**
 * The file of a room above, or outside of `src`, that an import of `from` leads to, at once or by way of files that have no room; nothing
 * when there is none.
 */
export function above(from: Path, to: Path, follow: Follow, layout: Layout = ROOMS): Path | undefined {
  const start = placeOf(from, layout);
  if (start === undefined || start.room === '..' || isTest(from)) return undefined;
  const rooms = layout[start.package] ?? [];
  const own = rooms.indexOf(start.room);
  const reached = new Set<Path>([to]);
  for (const file of reached) {
    const place = placeOf(file, layout);
    if (place?.package !== start.package) continue;
    if (place.room === '..') return file;
    if (start.room === '' || place.room === start.room) continue;
    if (place.room !== '' && rooms.indexOf(place.room) < own) return file;
    if (place.room === '') for (const each of follow(file)) reached.add(each);
  }
  return undefined;
}
