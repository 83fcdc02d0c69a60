/** @file How a program is run: which executable, with which flags of node, TypeScript included. */
import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, delimiter, extname, isAbsolute, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { LaunchError } from './errors.ts';

/** What to spawn. */
export interface ProgramCommand {
  readonly executable: string;
  readonly args: readonly string[];
  /** The absolute path of the program. */
  readonly program: string;
  /** Where to run it, if not here. */
  readonly cwd?: string;
  /** Node strips the types itself, for want of tsx: some TypeScript does not run so. */
  readonly stripsTypes?: true;
}

export interface ProgramOptions {
  /** @default process.cwd() */
  readonly cwd?: string;
  /** Flags for node. @default those this process was started with, without the debugger's and the inline program's */
  readonly execArgv?: readonly string[];
  /** The program is an executable of its own. @default false */
  readonly native?: boolean;
}

const TYPESCRIPT = new Set(['.ts', '.mts', '.cts', '.tsx']);
/** Flags of this process that would be wrong for another: one debugger port, one inline program. */
const OWN =
  /^(--inspect|--debug|--eval$|--eval=|-e$|--print$|-p$|-pe$|--interactive|-i$|--input-type|--test|--watch|--check$|-c$)/;

/**
 * Finds the program and how to run it; one that is not for node may be on the path, as with torchrun's `--no-python node …`. TypeScript runs as it is: by `tsx`, looked up
 * from the program's folder and then from this package, else by node where node can; Bun and Deno need nothing. Where this process is TypeScript
 * itself and has a loader among its flags, which workers inherit, they run by that one alone.
 * @throws LaunchError when the program or the folder to run it in does not exist, or nothing here can run it.
 */
export function programCommand(program: string, args: readonly string[], options: ProgramOptions = {}): ProgramCommand {
  const elsewhere = options.cwd === undefined ? {} : { cwd: resolve(options.cwd) };
  if (elsewhere.cwd !== undefined && statSync(elsewhere.cwd, { throwIfNoEntry: false })?.isDirectory() !== true)
    throw new LaunchError(`the working directory '${elsewhere.cwd}' for the workers is no folder`);
  const path = find(program, options);
  if (!existsSync(path)) throw new LaunchError(`the program '${program}' does not exist (looked for ${path})`);
  if (!statSync(path).isFile()) throw new LaunchError(`the program '${program}' is not a file (${path})`);
  if (options.native === true) return { executable: path, args, program: path, ...elsewhere };
  const flags = [...(options.execArgv ?? inheritedFlags(process.execArgv, elsewhere.cwd))];
  const started = (stripsTypes?: true): ProgramCommand => ({
    executable: process.execPath,
    args: [...flags, path, ...args],
    program: path,
    ...elsewhere,
    ...(stripsTypes && { stripsTypes }),
  });
  const loaded = runsAnyTypeScript() || importsTsx(flags) || (options.execArgv === undefined && runsTypeScript(flags));
  if (loaded || !TYPESCRIPT.has(extname(path))) return started();
  const tsx = findTsx(path);
  if (tsx === undefined && !nodeRuns(path)) {
    throw new LaunchError(
      `cannot run the TypeScript program '${path}' with Node ${process.version}: install tsx next to it (npm install --save-dev tsx)${extname(path) === '.tsx' ? '' : ', or use Node 22.18 or newer'}`,
    );
  }
  if (tsx === undefined) return started(true);
  flags.push('--import', tsx);
  return started();
}

/** In the working directory; an executable without a folder in its name also where the shell would look. */
function find(program: string, { cwd = process.cwd(), native = false }: ProgramOptions): string {
  const here = resolve(cwd, program);
  if (!native || program !== basename(program) || existsSync(here)) return here;
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  return folders.map((folder) => resolve(cwd, folder, program)).find(isExecutable) ?? here;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** The flags of node that a worker should have as well: `--conditions`, `--import`, memory limits and so on. */
function inheritedFlags(execArgv: readonly string[], cwd: string | undefined): string[] {
  const kept: string[] = [];
  for (let i = 0; i < execArgv.length; i++) {
    const flag = execArgv[i] ?? '';
    if (!OWN.test(flag)) kept.push(flag);
    // Among flags there is only one kind of word without a dash: the value of the one before, which never begins with a dash.
    else if (execArgv[i + 1]?.startsWith('-') === false) i++;
  }
  return cwd === undefined ? kept : kept.map(foundFromHere);
}

/** A flag, or its value, in words that mean the same module in another folder: what flags load is looked up from where node runs. */
function foundFromHere(word: string, at: number, flags: readonly string[]): string {
  const [, flag, name = word] = /^(--[\w-]+)=(.*)$/.exec(word) ?? [];
  const loader = flag ?? flags[at - 1] ?? '';
  if (!/^(--import|--loader|--experimental-loader|--require|-r)$/.test(loader)) return word;
  try {
    const path = createRequire(resolve('flags')).resolve(name);
    if (!isAbsolute(path)) return word;
    const found = /^(--require|-r)$/.test(loader) ? path : pathToFileURL(path).href;
    return flag === undefined ? found : `${flag}=${found}`;
  } catch {
    // A URL, or for node to complain about.
    return word;
  }
}

/**
 * Whether this process runs TypeScript by a loader among its own flags, which its workers get too. A second one would load everything
 * twice: tsx gives each function of a function its name again whenever it is made, which is slower than some of what they do.
 */
function runsTypeScript(flags: readonly string[]): boolean {
  return TYPESCRIPT.has(extname(process.argv[1] ?? '')) && loaders(flags).length > 0;
}

/** Bun and Deno run TypeScript as they run JavaScript. */
function runsAnyTypeScript(): boolean {
  return 'bun' in process.versions || 'deno' in process.versions;
}

/** Whether this Node strips types by itself; from JSX it does not. */
function nodeRuns(path: string): boolean {
  const { typescript = false } = process.features as { typescript?: unknown };
  return typescript !== false && extname(path) !== '.tsx';
}

function importsTsx(flags: readonly string[]): boolean {
  return loaders(flags).some((value) => value === 'tsx' || value.startsWith('tsx/') || /[\\/]tsx[\\/]/.test(value));
}

/** What `flags` load before the program, which may be what loads TypeScript. */
function loaders(flags: readonly string[]): string[] {
  return flags.flatMap((flag, i) => {
    const value =
      /^--(?:import|loader|experimental-loader)=(.*)$/.exec(flag)?.[1] ??
      (/^--(?:import|loader|experimental-loader)$/.test(flag) ? flags[i + 1] : undefined);
    return value === undefined ? [] : [value];
  });
}

function findTsx(program: string): string | undefined {
  for (const from of [program, import.meta.url]) {
    try {
      return pathToFileURL(createRequire(from).resolve('tsx')).href;
    } catch {
      // Not installed there; try the next place.
    }
  }
  return undefined;
}
