/** @file The import graph of the workspace, and its circles. */
import { importsOf } from './imports-of.ts';
import type { Path, Workspace } from './workspace.ts';

/** One file imports another, however often; `typesOnly` when nothing of it is left at run time. */
export interface Arrow {
  readonly from: Path;
  readonly to: Path;
  readonly line: number;
  readonly typesOnly: boolean;
}

export interface Graph {
  readonly files: readonly Path[];
  readonly arrows: readonly Arrow[];
}

export function readGraph(workspace: Workspace): Graph {
  const files = workspace.files();
  const arrows = files.flatMap((from) => arrowsOf(workspace, from, workspace.read(from)));
  return { files, arrows };
}

/** The arrows that leave one file with this text. */
export function arrowsOf(workspace: Workspace, from: Path, text: string): Arrow[] {
  const found = new Map<Path, Arrow>();
  for (const { specifier, line, typesOnly } of importsOf(text, from)) {
    const to = workspace.resolve(from, specifier);
    if (to === undefined || to === from) continue;
    const known = found.get(to);
    if (known === undefined) found.set(to, { from, to, line, typesOnly });
    else if (known.typesOnly && !typesOnly) found.set(to, { ...known, typesOnly });
  }
  return [...found.values()];
}

/** Groups of files each of which leads to all others of the group: Tarjan's strongly connected components of two files and more. */
export function circles(files: readonly Path[], arrows: readonly Arrow[]): Path[][] {
  const next = new Map<Path, Path[]>(files.map((file) => [file, []]));
  for (const { from, to } of arrows) if (next.has(to)) next.get(from)?.push(to);
  const order = new Map<Path, number>();
  const stack: Path[] = [];
  const open = new Set<Path>();
  const found: Path[][] = [];
  const visit = (file: Path): number => {
    const index = order.size;
    order.set(file, index);
    stack.push(file);
    open.add(file);
    let lowest = index;
    for (const to of next.get(file) ?? []) {
      if (!order.has(to)) lowest = Math.min(lowest, visit(to));
      else if (open.has(to)) lowest = Math.min(lowest, order.get(to) ?? lowest);
    }
    if (lowest === index) {
      const group = stack.splice(stack.indexOf(file));
      for (const member of group) open.delete(member);
      if (group.length > 1) found.push(group.sort());
    }
    return lowest;
  };
  for (const file of files) if (!order.has(file)) visit(file);
  return found.sort((a, b) => b.length - a.length);
}

/** The shortest way along arrows from one file to another, both ends included. */
export function wayBetween(from: Path, to: Path, next: (file: Path) => Iterable<Path>): Path[] | undefined {
  const cameFrom = new Map<Path, Path | undefined>([[from, undefined]]);
  for (const file of cameFrom.keys()) {
    if (file === to) {
      const way: Path[] = [];
      for (let at: Path | undefined = to; at !== undefined; at = cameFrom.get(at)) way.unshift(at);
      return way;
    }
    for (const each of next(file)) if (!cameFrom.has(each)) cameFrom.set(each, file);
  }
  return undefined;
}
