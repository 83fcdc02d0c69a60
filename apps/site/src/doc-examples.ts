/** @file The `@example`s in the doc comments of public names, which compile and run as the blocks of documents do, and the `@param`s beside them. */
import { relative } from 'node:path';
import ts from 'typescript';
import type { Block, Fault } from './blocks.ts';

/** What the doc comments of a package's names have for the check. */
export interface DocExamples {
  readonly blocks: readonly Block[];
  readonly faults: readonly Fault[];
}

const LANGUAGE = 'ts';
const WORDS = /^(compile|workers=[\w,]+)$/;

/**
 * The examples of what `entry` of `program` exports. What stands behind the language says how one runs: nothing, by itself;
 * `workers=worker1,ps`, as 'worker0' of a group with these; `compile`, not at all. A function with an example has a `@param` for each
 * of its parameters. A declaration that is in `seen` was looked at for another package, and is not again.
 */
export function examplesOf(program: ts.Program, entry: string, root: string, seen: Set<ts.Node>): DocExamples {
  const checker = program.getTypeChecker();
  const source = program.getSourceFile(entry);
  const module = source === undefined ? undefined : checker.getSymbolAtLocation(source);
  const blocks: Block[] = [];
  const faults: Fault[] = [];
  const visit = (of: ts.Symbol): void => {
    for (const exported of checker.getExportsOfModule(of)) {
      const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported;
      if (symbol.flags & ts.SymbolFlags.ValueModule) visit(symbol);
      for (const declaration of symbol.declarations ?? []) {
        if (seen.has(declaration) || ts.isSourceFile(declaration)) continue;
        seen.add(declaration);
        const found = commentsOf(declaration).map((comment) => read(comment, root));
        blocks.push(...found.flatMap((one) => one.blocks));
        faults.push(...found.flatMap((one) => one.faults));
        if (found.some((one) => one.blocks.length > 0)) faults.push(...undescribed(declaration, checker, root));
      }
    }
  };
  if (module !== undefined) visit(module);
  return { blocks, faults };
}

/** The doc comments of a declaration and of its members. */
function commentsOf(declaration: ts.Node): ts.JSDoc[] {
  const of = (node: ts.Node): ts.JSDoc[] => ts.getJSDocCommentsAndTags(node).filter(ts.isJSDoc);
  const members =
    ts.isClassDeclaration(declaration) || ts.isInterfaceDeclaration(declaration) ? [...declaration.members] : [];
  return [declaration, ...members].flatMap(of);
}

function read(comment: ts.JSDoc, root: string): DocExamples {
  const file = comment.getSourceFile();
  const document = relative(root, file.fileName);
  const first = file.getLineAndCharacterOfPosition(comment.getStart()).line + 1;
  const lines = comment
    .getText()
    .split('\n')
    .map((line) => line.replace(/^\s*\*(\/$| ?)/, ''));
  const blocks: Block[] = [];
  const faults: Fault[] = [];
  for (let i = 0; i < lines.length; i++) {
    if (!/^@example\b/.test(lines[i] ?? '')) continue;
    const fault = (text: string): void => void faults.push({ document, line: first + i, text });
    const open = lines.findIndex((line, at) => at > i && /^(```|@)/.test(line));
    const [, language, words = ''] = /^```(\w*) ?(.*)$/.exec(lines[open] ?? '') ?? [];
    const close = open < 0 ? -1 : lines.indexOf('```', open + 1);
    const unknown = words.split(' ').find((word) => word !== '' && !WORDS.test(word));
    if (language !== LANGUAGE || close < 0) fault('an example has a block of ts');
    else if (unknown !== undefined) fault(`an example does not know '${unknown}'`);
    else
      blocks.push({
        document,
        line: first + open + 1,
        text: lines.slice(open + 1, close).join('\n'),
        given: '',
        after: false,
        run: !words.includes('compile'),
        workers: /workers=([\w,]+)/.exec(words)?.[1]?.split(',') ?? [],
        name: undefined,
        file: undefined,
      });
  }
  return { blocks, faults };
}

/** Parameters of a function that its comment does not describe, and descriptions of what is none. */
function undescribed(declaration: ts.Declaration, checker: ts.TypeChecker, root: string): Fault[] {
  const symbol = (declaration as { name?: ts.Node }).name;
  const [signature] = symbol === undefined ? [] : checker.getTypeAtLocation(symbol).getCallSignatures();
  if (signature === undefined) return [];
  const told = ts
    .getJSDocTags(declaration)
    .filter(ts.isJSDocParameterTag)
    .map((tag) => tag.name.getText());
  const names = signature.parameters.map(({ name }) => name);
  const file = declaration.getSourceFile();
  const { line } = file.getLineAndCharacterOfPosition(declaration.getStart());
  const fault = (text: string): Fault => ({ document: relative(root, file.fileName), line: line + 1, text });
  return [
    ...names.filter((name) => !told.includes(name)).map((name) => fault(`has an example and no @param ${name}`)),
    ...told.filter((name) => !names.includes(name)).map((name) => fault(`has a @param ${name}, which is no parameter`)),
  ];
}
