/** @file A clean clone of this repository, in which releases are made. */
import { appendFileSync, cpSync, lstatSync, mkdirSync, readdirSync, readlinkSync, rmSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { root, run, type Finished } from '../workspace.ts';

const WHO = { NAME: 'Release Rehearsal', EMAIL: 'release@example.org' };

/** A clone without tags, builds or a registry of its own. */
export class Clone {
  readonly folder: string;
  private readonly env: NodeJS.ProcessEnv;

  private constructor(folder: string, env: Readonly<Record<string, string>>) {
    this.folder = folder;
    this.env = {
      ...process.env,
      ...env,
      NX_DAEMON: 'false',
      NX_TUI: 'false',
      NX_WORKSPACE_ROOT_PATH: folder,
      NO_COLOR: '1',
      GIT_AUTHOR_NAME: WHO.NAME,
      GIT_AUTHOR_EMAIL: WHO.EMAIL,
      GIT_COMMITTER_NAME: WHO.NAME,
      GIT_COMMITTER_EMAIL: WHO.EMAIL,
    };
    // Set by the test runner for itself.
    delete this.env['NODE_OPTIONS'];
  }

  /** Clones the last commit into `folder`, with what is changed and not committed on top; packages are those installed here. */
  static async make(folder: string, env: Readonly<Record<string, string>>): Promise<Clone> {
    const clone = new Clone(folder, env);
    await must(run('git', ['clone', '--quiet', root, folder], { cwd: dirname(folder) }));
    const tags = (await clone.git('tag', '--list')).trim().split('\n').filter(Boolean);
    if (tags.length > 0) await clone.git('tag', '--delete', ...tags);
    await clone.takeChanges();
    clone.linkModules();
    return clone;
  }

  /** Answers what git says. @throws Error when it fails. */
  async git(...args: string[]): Promise<string> {
    return (await must(run('git', args, { cwd: this.folder, env: this.env }))).stdout;
  }

  /** Runs Nx. */
  nx(...args: string[]): Promise<Finished> {
    return run('npx', ['nx', ...args], { cwd: this.folder, env: this.env, timeoutMs: 600_000 });
  }

  /** Runs npm in a package's folder. */
  npm(name: string, ...args: string[]): Promise<Finished> {
    return run('npm', args, { cwd: join(this.folder, 'packages', name), env: this.env });
  }

  /** Appends to a file and commits that. */
  async commit(message: string, file: string, text: string): Promise<void> {
    appendFileSync(join(this.folder, file), text);
    await this.git('commit', '--quiet', '--all', '--message', message);
  }

  private async takeChanges(): Promise<void> {
    const list = async (...args: string[]): Promise<string[]> =>
      (await must(run('git', ['ls-files', '-z', ...args], { cwd: root }))).stdout.split('\0').filter(Boolean);
    const gone = new Set(await list('--deleted'));
    for (const file of gone) rmSync(join(this.folder, file), { force: true });
    for (const file of await list('--modified', '--others', '--exclude-standard'))
      if (!gone.has(file)) cpSync(join(root, file), join(this.folder, file));
    await this.git('add', '--all');
    if ((await this.git('status', '--porcelain')) !== '')
      await this.git('commit', '--quiet', '--message', 'chore: what is not committed');
  }

  /** `npm ci` would take a minute: other people's packages are those of this checkout, the workspace's own are the clone's. */
  private linkModules(): void {
    const modules = join(this.folder, 'node_modules');
    linkAll(join(root, 'node_modules'), modules);
    for (const name of readdirSync(join(this.folder, 'packages'))) {
      const nested = join(root, 'packages', name, 'node_modules');
      if (lstatSync(nested, { throwIfNoEntry: false }) !== undefined)
        symlinkSync(nested, join(this.folder, 'packages', name, 'node_modules'));
    }
  }
}

/** Links every entry of a folder of modules. What is a link there already leads into the workspace, and does so here. */
function linkAll(from: string, to: string): void {
  mkdirSync(to);
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isSymbolicLink()) symlinkSync(readlinkSync(source), target);
    else if (entry.name.startsWith('@')) linkAll(source, target);
    else symlinkSync(source, target);
  }
}

/** @throws Error with the output when the program failed. */
export async function must(finished: Promise<Finished>): Promise<Finished> {
  const result = await finished;
  if (result.code !== 0) throw new Error(`exit code ${result.code}\n${result.stdout}${result.stderr}`);
  return result;
}
