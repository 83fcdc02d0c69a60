/** @file The code blocks of a document, and what comments that readers do not see say of them. */

import { basename } from 'node:path';

/** A block of TypeScript. */
export interface Block {
  /** The document it is in, from the root. */
  readonly document: string;
  /** The line of its first line of code. */
  readonly line: number;
  readonly text: string;
  /** Code that stands before it when it is compiled or run, and that readers do not see. */
  readonly given: string;
  /** Whether the code of the block before it on the page stands before it, too. */
  readonly after: boolean;
  /** Whether it is run, and what it prints held against the comments behind its console.log(). */
  readonly run: boolean;
  /** The workers beside 'worker0' of the group that it runs in; none: it starts its own, or needs none. */
  readonly workers: readonly string[];
  /** The name other blocks of the page import it by: 'server.ts'. That of the file, if it is all of one. */
  readonly name: string | undefined;
  /** The region of a file that it is: 'apps/x/main.ts#calls'. */
  readonly file: string | undefined;
}

/** A mistake in a document. */
export interface Fault {
  readonly document: string;
  readonly line: number;
  readonly text: string;
}

interface Directive {
  readonly words: readonly string[];
  readonly given: string;
  readonly file: string | undefined;
}

const NONE: Directive = { words: [], given: '', file: undefined };
const LANGUAGES: ReadonlySet<string> = new Set(['ts', 'typescript']);

/**
 * The TypeScript in `markdown`. A comment before a block may say more of it:
 *
 *     <!-- code: run workers=worker1,ps after name=server.ts
 *     declare const x: Tensor;
 *     -->
 *     <!-- file: apps/examples/src/01-hello-rpc/main.ts#calls -->
 */
export function blocksOf(document: string, markdown: string): { blocks: Block[]; faults: Fault[] } {
  const blocks: Block[] = [];
  const faults: Fault[] = [];
  const lines = markdown.split('\n');
  let directive = NONE;
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i] ?? '';
    const comment = /^<!-- (code|file):(.*)$/.exec(line);
    if (comment !== null) {
      const first = i;
      while (i < lines.length && !(lines[i] ?? '').includes('-->')) i++;
      const text = lines
        .slice(first, i + 1)
        .join('\n')
        .replace(/^<!-- \w+:/, '')
        .replace(/\s*-->.*$/, '');
      directive = comment[1] === 'file' ? { ...NONE, file: text.trim() } : codeDirective(text);
      continue;
    }
    const fence = /^( *)(`{3,})(\w*)(.*)$/.exec(line);
    if (fence === null) {
      if (line.trim() !== '') {
        if (directive !== NONE)
          faults.push({ document, line: i + 1, text: 'the comment above belongs to no code block' });
        directive = NONE;
      }
      continue;
    }
    const [, indent = '', ticks = '', language = ''] = fence;
    const start = i + 1;
    for (i++; i < lines.length && (lines[i] ?? '').trim() !== ticks; i++);
    const text = lines
      .slice(start, i)
      .map((code) => (code.startsWith(indent) ? code.slice(indent.length) : code))
      .join('\n');
    if (LANGUAGES.has(language)) blocks.push({ document, line: start + 1, text, ...meaning(directive) });
    else if (directive !== NONE)
      faults.push({ document, line: start, text: 'the comment above is about TypeScript, and this block is not' });
    directive = NONE;
  }
  return { blocks, faults };
}

function codeDirective(text: string): Directive {
  const [words = '', ...given] = text.split('\n');
  return { words: words.trim().split(/\s+/), given: given.join('\n'), file: undefined };
}

function meaning({ words, given, file }: Directive): Omit<Block, 'document' | 'line' | 'text'> {
  const valueOf = (key: string): string | undefined =>
    words.find((word) => word.startsWith(`${key}=`))?.slice(key.length + 1);
  return {
    given,
    after: words.includes('after'),
    run: words.includes('run'),
    workers: valueOf('workers')?.split(',') ?? [],
    name: valueOf('name') ?? (file?.includes('#') === false ? basename(file) : undefined),
    file,
  };
}

/** A block as a module of its own. */
export interface Module {
  readonly block: Block;
  readonly code: string;
  /** How many lines of `code` stand before the block's own. */
  readonly shift: number;
  /** Whether the code of the next block begins with this one's. */
  readonly continued: boolean;
}

/**
 * What each block of a page is when it stands alone: what is given, what it goes on from, and the imports that the page has made so far.
 * A block without imports of its own is a fragment: what it uses of `known`, names with their imports, it has.
 */
export function modulesOf(blocks: readonly Block[], known: ReadonlyMap<string, string> = new Map()): Module[] {
  const imports = new Map<string, string>();
  let before = '';
  return blocks.map((block, i) => {
    const own = `${block.given}\n${block.text}`;
    const earlier = block.after ? before : '';
    const whole = `${earlier}\n${own}`;
    for (const { name, line } of importsOf(block.text)) imports.set(name, line);
    const taken = new Set(importsOf(whole).map(({ name }) => name));
    const fragment = importsOf(whole).length === 0;
    const missing = [...(fragment ? new Map([...known, ...imports]) : imports)]
      .filter(([name]) => !taken.has(name) && new RegExp(`\\b${name}\\b`).test(whole) && !declares(whole, name))
      .map(([, line]) => line);
    const prefix = [...missing, earlier, block.given, ''].join('\n');
    before = `${earlier}\n${own}`;
    return {
      block,
      code: `${prefix}${block.text}\nexport {};\n`,
      shift: prefix.split('\n').length - 1,
      continued: blocks[i + 1]?.after === true,
    };
  });
}

/** Each name that `code` imports, with an import of it alone. */
function importsOf(code: string): { name: string; line: string }[] {
  return [...code.matchAll(/^import (type )?\{([^}]+)\} from ('[^']+');/gm)].flatMap(
    ([, type = '', names = '', from = '']) =>
      names
        .split(',')
        .map((text) => text.trim())
        .filter((text) => text !== '')
        .map((text) => ({
          name: text.replace(/^type /, '').replace(/^.* as /, ''),
          line: `import ${type}{ ${text} } from ${from};`,
        })),
  );
}

function declares(code: string, name: string): boolean {
  return new RegExp(`\\b(const|let|var|function|class|interface|type) ${name}\\b`).test(code);
}
