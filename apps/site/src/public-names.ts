/** @file Every name that a package exports, and whether its doc comment says what it is. */
import { relative } from 'node:path';
import ts from 'typescript';

export interface PublicName {
  readonly package: string;
  /** 'rpcSync', or 'nn.Linear' of a namespace. */
  readonly name: string;
  /** Where it is declared. */
  readonly place: string;
  readonly documented: boolean;
  /** Whether nothing is left of it when the program runs. */
  readonly isType: boolean;
}

/** What the module `entry` of `program` exports, namespaces gone into. What a package of ours exports again is that package's own. */
export function publicNames(program: ts.Program, packageName: string, entry: string, root: string): PublicName[] {
  const checker = program.getTypeChecker();
  const source = program.getSourceFile(entry);
  const module = source === undefined ? undefined : checker.getSymbolAtLocation(source);
  if (module === undefined) throw new Error(`${entry} is no module`);
  const names: PublicName[] = [];
  const visit = (of: ts.Symbol, prefix: string): void => {
    for (const exported of checker.getExportsOfModule(of)) {
      const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported;
      const declaration = symbol.declarations?.[0];
      if (declaration === undefined) continue;
      const name = `${prefix}${exported.name}`;
      if (symbol.flags & ts.SymbolFlags.ValueModule) visit(symbol, `${name}.`);
      const file = declaration.getSourceFile();
      const { line } = file.getLineAndCharacterOfPosition(declaration.getStart());
      names.push({
        package: packageName,
        name,
        place: `${relative(root, file.fileName)}:${line + 1}`,
        documented: isDocumented(symbol, exported, checker),
        isType: (symbol.flags & ts.SymbolFlags.Value) === 0,
      });
    }
  };
  visit(module, '');
  return names;
}

function isDocumented(symbol: ts.Symbol, exported: ts.Symbol, checker: ts.TypeChecker): boolean {
  // A namespace is a file: the comment at its head, or at the line that exports it.
  if (symbol.flags & ts.SymbolFlags.ValueModule)
    return /^\/\*\*/.test(symbol.declarations?.[0]?.getSourceFile().text ?? '') || textOf(exported, checker) !== '';
  return textOf(symbol, checker) !== '';
}

function textOf(symbol: ts.Symbol, checker: ts.TypeChecker): string {
  return ts.displayPartsToString(symbol.getDocumentationComment(checker)).trim();
}
