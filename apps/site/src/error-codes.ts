/** @file The page of errors names every code there is, and no other. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Fault } from './blocks.ts';
import { readDocument, root } from './repository.ts';

const PAGE = 'docs/errors.md';
const TABLE = 'packages/rpc/src/base/errors.ts';

/** The table of codes, as the source has it. */
function errorCodes(): string[] {
  const table = /RPC_ERROR_CODES = Object\.freeze\(\[([^\]]+)\]/.exec(readFileSync(join(root, TABLE), 'utf8'))?.[1];
  if (table === undefined) throw new Error(`${TABLE} has no RPC_ERROR_CODES`);
  return [...table.matchAll(/'([a-z-]+)'/g)].map(([, code = '']) => code);
}

/** Codes without a section of their own, and sections of codes that nothing fails with. */
export function checkErrorPage(page = readDocument(PAGE), codes: readonly string[] = errorCodes()): Fault[] {
  const sections = [...page.matchAll(/^### `([a-z-]+)`/gm)].map(([, code = '']) => code);
  const fault = (text: string): Fault => ({ document: PAGE, line: 1, text });
  return [
    ...codes.filter((code) => !sections.includes(code)).map((code) => fault(`says nothing of '${code}'`)),
    ...sections.filter((code) => !codes.includes(code)).map((code) => fault(`'${code}' is no code`)),
  ];
}
