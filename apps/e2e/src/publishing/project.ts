/** @file A fresh project outside of the repository, which installs from a registry as any user's does. */
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, run } from '../workspace.ts';
import { must } from './clone.ts';

/** Programs that are run outside: plain files, as a user writes them. */
const PROGRAMS = join(root, 'apps/e2e/programs');

export type Resolution = 'nodenext' | 'bundler';

export class Project {
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  /** The project in a folder, made before. */
  static at(folder: string): Project {
    return new Project(folder);
  }

  /** Makes the project and installs `packages` in it. */
  static async make(
    folder: string,
    env: Readonly<Record<string, string>>,
    packages: readonly string[],
  ): Promise<Project> {
    mkdirSync(folder, { recursive: true });
    const project = new Project(folder);
    project.write('package.json', JSON.stringify({ name: 'outside', private: true, type: 'module' }));
    const args = ['install', '--no-audit', '--no-fund', '--prefer-offline', ...packages];
    await must(run('npm', args, { cwd: folder, env: { ...process.env, ...env } }));
    cpSync(PROGRAMS, folder, { recursive: true });
    return project;
  }

  write(file: string, text: string): void {
    writeFileSync(join(this.folder, file), text);
  }

  /**
   * Type-checks files, and with them all declarations that they reach; answers what the compiler finds in the project and in our
   * declarations. As for a program of Node under 'nodenext', and for a page under 'bundler'. The compiler is that installed in `modules`.
   */
  async typeErrors(files: readonly string[], moduleResolution: Resolution, modules = root): Promise<string[]> {
    const config = `tsconfig.${moduleResolution}.json`;
    const own =
      moduleResolution === 'nodenext'
        ? { module: 'nodenext', lib: ['es2023', 'esnext.disposable'] }
        : { module: 'esnext', lib: ['es2023', 'esnext.disposable', 'dom'] };
    const options = {
      moduleResolution,
      target: 'es2022',
      strict: true,
      skipLibCheck: false,
      noEmit: true,
      declaration: true, // as `tsc --init` has it: what is exported has a type that can be written down
      types: ['node'],
    };
    this.write(config, JSON.stringify({ compilerOptions: { ...options, ...own }, files }));
    const tsc = join(modules, 'node_modules/typescript/bin/tsc');
    const { stdout } = await run(process.execPath, [tsc, '-p', config, '--pretty', 'false'], { cwd: this.folder });
    const errors = stdout.split('\n').filter((line) => /error TS\d+/.test(line));
    return errors.filter((line) => !/^(\.\.|\/)|^node_modules\/(?!@backwire\/|backwire\/)/.test(line));
  }
}

/** This process's, without what the test runner set for itself. */
export function cleanEnvironment(): NodeJS.ProcessEnv {
  const env = { ...process.env };
  for (const name of ['NODE_OPTIONS', 'VITEST', 'NODE_ENV', 'FORCE_COLOR']) delete env[name];
  return env;
}
