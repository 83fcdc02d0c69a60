/** @file Runs the code blocks that say so, a process for each page, and holds what they print against the comments behind their console.log(). */
import { spawn } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { rolldown } from 'rolldown';
import type { Fault, Module } from './blocks.ts';
import { fileOf } from './compile.ts';
import { out, site } from './repository.ts';

const folder = join(out, 'run');
/** How long the blocks of one page may take, with the start of their process. */
const PAGE_MS = 60_000;
/** What tells the output of one block from that of the next. */
const MARK = '\u0001';

/** Runs the blocks among `modules` that say `run`; answers what went wrong. */
export async function runBlocks(modules: readonly Module[]): Promise<Fault[]> {
  const pages = new Map<string, Module[]>();
  // What the next block begins with is run there.
  for (const module of modules)
    if (module.block.run && !module.continued)
      pages.set(module.block.document, [...(pages.get(module.block.document) ?? []), module]);
  if (pages.size === 0) return [];
  rmSync(folder, { recursive: true, force: true });
  for (const module of modules) {
    const file = fileOf(module.block);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, module.code);
  }
  const entries = await bundle([...pages.keys()], pages);
  const faults: Fault[] = [];
  for (const [document, blocks] of pages) faults.push(...(await runPage(entries.get(document) ?? '', blocks)));
  return faults;
}

/** One file a page, of its blocks and what they import, so that a process starts in a moment. */
async function bundle(
  documents: readonly string[],
  pages: ReadonlyMap<string, Module[]>,
): Promise<Map<string, string>> {
  const entries = new Map<string, string>();
  const input: Record<string, string> = {};
  for (const [i, document] of documents.entries()) {
    const entry = join(out, 'blocks', `page-${i}.ts`);
    writeFileSync(entry, programOf(pages.get(document) ?? []));
    input[`page-${i}`] = entry;
    entries.set(document, join(folder, `page-${i}.js`));
  }
  const made = await rolldown({
    cwd: site,
    input,
    platform: 'node',
    resolve: { conditionNames: ['@backwire/source', 'node', 'import', 'default'] },
    external: (id) => /^(node:|@tensorflow|koffi|ws|redis|webgpu|esbuild)/.test(id),
    transform: { target: 'es2022' },
    logLevel: 'silent',
  });
  await made.write({ dir: folder, format: 'esm', entryFileNames: '[name].js', chunkFileNames: 'shared-[hash].js' });
  await made.close();
  return entries;
}

/** The program of a page: each block in its group, one after the other. */
function programOf(blocks: readonly Module[]): string {
  const steps = blocks.map(({ block }, i) => {
    const path = JSON.stringify(fileOf(block));
    return `await step(${i}, ${JSON.stringify(block.workers)}, () => import(${path}));`;
  });
  return `import { inGroup } from ${JSON.stringify(join(site, 'src/block-group.ts'))};
async function step(i: number, workers: string[], block: () => Promise<unknown>): Promise<void> {
  console.log('${MARK}' + i);
  try {
    await inGroup('block-' + i, workers, block);
  } catch (error) {
    console.log('${MARK}failed', error);
  }
}
${steps.join('\n')}
console.log('${MARK}end');
process.exit();
`;
}

async function runPage(file: string, blocks: readonly Module[]): Promise<Fault[]> {
  const { text, ended } = await outputOf(file);
  const parts = text.split(MARK).slice(1);
  const faults: Fault[] = [];
  for (const [i, { block, code }] of blocks.entries()) {
    const start = parts.findIndex((part) => part.startsWith(`${i}\n`));
    const wrong = (text: string): void => void faults.push({ document: block.document, line: block.line, text });
    if (start < 0) wrong('was not reached: a block before it does not end');
    else if (parts[start + 1]?.startsWith('failed') === true) wrong(`failed: ${parts[start + 1]?.slice(7).trim()}`);
    else if (start + 1 >= parts.length) wrong(`does not end${ended}`);
    else
      for (const expected of missing(code, (parts[start] ?? '').replace(/^\d+\n/, '')))
        wrong(`did not print what its comment says: ${expected}`);
  }
  return faults;
}

/** The comments behind calls of console.log() that were not printed in their order; '…' stands for anything. */
export function missing(code: string, printed: string): string[] {
  const expected = [...code.matchAll(/console\.log\(.*\);? *\/\/ (.+)$/gm)].map(([, text = '']) => text.trim());
  // What is printed over several lines is one value: it is compared without them.
  let rest = squeezed(printed);
  return expected.filter((text) => {
    const pieces = squeezed(text)
      .split('…')
      .filter((piece) => piece !== '');
    for (const piece of pieces) {
      const at = rest.indexOf(piece);
      if (at < 0) return true;
      rest = rest.slice(at + piece.length);
    }
    return false;
  });
}

function squeezed(text: string): string {
  return text.replace(/\s+/g, '');
}

function outputOf(file: string): Promise<{ text: string; ended: string }> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, ['--enable-source-maps', file], {
      cwd: folder,
      env: { ...process.env, NO_COLOR: '1', FORCE_COLOR: '0' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let text = '';
    let errors = '';
    child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
    const timer = setTimeout(() => child.kill('SIGKILL'), PAGE_MS);
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      resolve({ text, ended: `: ${signal ?? `exit code ${code}`} ${errors.slice(-2_000)}` });
    });
  });
}
