/** @file The lint rules of this repository: no circle of imports, types included, no import of a room above, no `using` that tsx gets wrong. */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { Rule } from 'eslint';
import { arrowsOf, wayBetween } from '../imports/graph.ts';
import { importsOf } from '../imports/imports-of.ts';
import { above, unlisted } from '../imports/rooms.ts';
import { Workspace, type Path } from '../imports/workspace.ts';
import { noUsingInLoop } from './using-in-loop.ts';

const workspace = new Workspace();

/** What each file on disk imports, by path; read again when the file has changed: an editor keeps this process. */
const known = new Map<Path, { readonly changed: number; readonly to: readonly Path[] }>();

function follow(file: Path): readonly Path[] {
  const changed = statSync(join(workspace.folder, file)).mtimeMs;
  const found = known.get(file);
  if (found?.changed === changed) return found.to;
  const to = arrowsOf(workspace, file, workspace.read(file)).map((arrow) => arrow.to);
  known.set(file, { changed, to });
  return to;
}

/** Calls `check` for every import of the linted text that leads to a file of this repository. */
function eachImport(context: Rule.RuleContext, check: (from: Path, to: Path) => string | undefined): Rule.RuleListener {
  return {
    Program() {
      const from = workspace.pathOf(context.filename);
      if (from === undefined) return;
      for (const { specifier, line, column } of importsOf(context.sourceCode.text, from)) {
        const to = workspace.resolve(from, specifier);
        const message = to === undefined || to === from ? undefined : check(from, to);
        if (message !== undefined) context.report({ loc: { line, column }, message });
      }
    },
  };
}

/** Circles between packages are another rule's: these stay inside of one. */
const noCircles: Rule.RuleModule = {
  meta: { type: 'problem', docs: { description: 'no file leads back to itself by imports, those of types included' } },
  create: (context) =>
    eachImport(context, (from, to) => {
      const home = homeOf(from);
      if (homeOf(to) !== home) return undefined;
      const way = wayBetween(to, from, (file) => follow(file).filter((each) => homeOf(each) === home));
      return way === undefined ? undefined : `This import closes a circle: ${[from, ...way].join(' → ')}.`;
    }),
};

const noUp: Rule.RuleModule = {
  meta: { type: 'problem', docs: { description: 'a room of a package imports from rooms below it only' } },
  create(context) {
    const path = workspace.pathOf(context.filename);
    const place = path === undefined ? undefined : unlisted(path);
    if (place === undefined) {
      return eachImport(context, (from, to) => {
        const file = above(from, to, follow);
        if (file === undefined) return undefined;
        const by = file === to ? '' : ` by way of ${to}`;
        return `This import leads up to ${file}${by}; the order of rooms is in tools/imports/layout.ts.`;
      });
    }
    const message = `The folder '${place.room}' has no place in the order of rooms of '${place.package}' in tools/imports/layout.ts.`;
    return { Program: () => context.report({ loc: { line: 1, column: 0 }, message }) };
  },
};

/** The package or app of a file. */
function homeOf(path: Path): string {
  return path.split('/', 2).join('/');
}

export const rules = { 'no-import-circles': noCircles, 'no-import-up': noUp, 'no-using-in-loop': noUsingInLoop };
