/** @file The files of the workspace and where an import leads: by path, or through the `exports` of a sibling package. */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';

/** The root folder of this repository. */
const root = resolve(import.meta.dirname, '../..');

/** The condition under which a package's `exports` name its sources. */
const SOURCE = '@backwire/source';

/** A path inside the workspace, with forward slashes. */
export type Path = string;

interface Manifest {
  readonly name?: string;
  readonly exports?: Readonly<Record<string, string | Readonly<Record<string, string>>>>;
}

export class Workspace {
  readonly folder: string;
  /** By name, the folder of each package and its manifest. */
  private readonly packages = new Map<string, { folder: Path; manifest: Manifest }>();

  constructor(folder: string = root) {
    this.folder = folder;
    for (const group of ['packages', 'apps']) {
      if (!existsSync(join(folder, group))) continue;
      for (const name of readdirSync(join(folder, group))) this.addPackage(`${group}/${name}`);
    }
  }

  /** The sources that git tracks or would track: TypeScript, and the JavaScript of pages and tools. */
  files(): Path[] {
    const args = ['ls-files', '--cached', '--others', '--exclude-standard', '*.ts', '*.js', '*.mjs'];
    const listed = execFileSync('git', args, { cwd: this.folder, encoding: 'utf8', maxBuffer: 64 << 20 });
    return listed
      .split('\n')
      .filter((path) => path !== '' && existsSync(join(this.folder, path)))
      .sort();
  }

  read(path: Path): string {
    return readFileSync(join(this.folder, path), 'utf8');
  }

  /** The path of an absolute file name, or nothing when it lies elsewhere. */
  pathOf(file: string): Path | undefined {
    const path = relative(this.folder, file).split(sep).join('/');
    return path.startsWith('..') ? undefined : path;
  }

  /** The file that `specifier` means in `from`; nothing for what does not belong to the workspace. */
  resolve(from: Path, specifier: string): Path | undefined {
    if (specifier.startsWith('.')) {
      const path = join(dirname(from), specifier).split(sep).join('/');
      return existsSync(join(this.folder, path)) ? path : undefined;
    }
    const parts = specifier.split('/');
    const name = parts.slice(0, specifier.startsWith('@') ? 2 : 1).join('/');
    const found = this.packages.get(name);
    if (found === undefined) return undefined;
    const entry = found.manifest.exports?.[`.${specifier.slice(name.length)}`];
    const target = typeof entry === 'object' ? entry[SOURCE] : entry;
    return target === undefined ? undefined : join(found.folder, target).split(sep).join('/');
  }

  private addPackage(folder: Path): void {
    const file = join(this.folder, folder, 'package.json');
    if (!existsSync(file)) return;
    const manifest = JSON.parse(readFileSync(file, 'utf8')) as Manifest;
    if (manifest.name !== undefined) this.packages.set(manifest.name, { folder, manifest });
  }
}
