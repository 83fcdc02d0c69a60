/** @file The numbers of the import graph: files, arrows, arrows up between rooms, circles with types and without; by package and in all. */
import { circles, type Arrow, type Graph } from './graph.ts';
import { ROOMS } from './layout.ts';
import { above, isTest, placeOf, type Layout } from './rooms.ts';
import type { Path } from './workspace.ts';

export interface Numbers {
  readonly name: string;
  readonly files: number;
  readonly arrows: number;
  /** Arrows of a room that lead to one above. */
  readonly up: readonly Arrow[];
  /** Groups of files that lead to each other, the largest first. */
  readonly circles: readonly (readonly Path[])[];
  /** The same, of what is left at run time. */
  readonly runtimeCircles: readonly (readonly Path[])[];
}

/** A row for the sources of each package, tests and tools apart, and a last one for all files of the repository. */
export function measure(graph: Graph, layout: Layout = ROOMS): Numbers[] {
  const next = new Map<Path, Path[]>(graph.files.map((file) => [file, []]));
  for (const { from, to } of graph.arrows) next.get(from)?.push(to);
  const follow = (file: Path): readonly Path[] => next.get(file) ?? [];
  const up = graph.arrows.filter(({ from, to }) => above(from, to, follow, layout) !== undefined);
  const packages = new Set(graph.files.map((file) => placeOf(file)?.package).filter((name) => name !== undefined));
  const rows = [...packages].sort().map((name) => {
    const own = (file: Path): boolean => isSource(file, name);
    return numbersOf(
      name,
      graph.files.filter(own),
      graph.arrows.filter(({ from, to }) => own(from) && own(to)),
      up.filter(({ from }) => own(from)),
    );
  });
  return [...rows, numbersOf('repository', graph.files, graph.arrows, up)];
}

function isSource(file: Path, name: string): boolean {
  const place = placeOf(file);
  return place?.package === name && place.room !== '..' && !isTest(file);
}

function numbersOf(name: string, files: readonly Path[], arrows: readonly Arrow[], up: readonly Arrow[]): Numbers {
  const runtime = arrows.filter(({ typesOnly }) => !typesOnly);
  return {
    name,
    files: files.length,
    arrows: arrows.length,
    up,
    circles: circles(files, arrows),
    runtimeCircles: circles(files, runtime),
  };
}
