/** @file Where this package's code lies: for looking packages up, and for telling its frames of a stack from the program's. */

/** This file, or the bundle it is part of. A bundle in the form of a CommonJS module has no `import.meta.url`. */
export const here: string | undefined = import.meta.url ?? (typeof __filename === 'string' ? __filename : undefined);

/** The package's folder, as stacks show it; undefined when the package was bundled into the program. */
const home = /^(?:file:\/\/)?(.*\/tensor\/)(?:src|dist)\/[^/]*$/.exec(here ?? '')?.[1];

/** Whether a line of a stack lies in the library. Its tests, which lie there too, are programs. */
export function isOwnFrame(line: string): boolean {
  if (home === undefined || /\.test\.[jt]s/.test(line)) return false;
  return line.includes(`${home}src/`) || line.includes(`${home}dist/`);
}
