/** @file What one source file imports, read from its text. */
import ts from 'typescript';

/** One import of a file, as it is written there. */
export interface Import {
  readonly specifier: string;
  /** Line and column where the specifier stands, from 1 and from 0. */
  readonly line: number;
  readonly column: number;
  /** Whether nothing is left of it when the types are taken away: `import type`, `export type`, `typeof import()`. */
  readonly typesOnly: boolean;
}

/** All imports, re-exports, dynamic imports and imported types of a text. What a program puts together at run time is not seen. */
export function importsOf(text: string, fileName = 'file.ts'): Import[] {
  const source = ts.createSourceFile(fileName, text, ts.ScriptTarget.Latest, false);
  const found: Import[] = [];
  const add = (specifier: ts.Node | undefined, typesOnly: boolean): void => {
    if (specifier === undefined || !ts.isStringLiteralLike(specifier)) return;
    const { line, character } = source.getLineAndCharacterOfPosition(specifier.getStart(source));
    found.push({ specifier: specifier.text, line: line + 1, column: character, typesOnly });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) {
      // `import { type X }` stays behind as an import of the file, as `verbatimModuleSyntax` says.
      add(node.moduleSpecifier, node.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword);
    } else if (ts.isExportDeclaration(node)) {
      add(node.moduleSpecifier, node.isTypeOnly);
    } else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
      add(node.argument.literal, true);
    } else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      add(node.arguments[0], false);
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}
