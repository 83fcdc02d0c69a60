/** @file Compiles the code blocks of all documents at once, each as a module of its own, against the sources of the packages. */
import { join } from 'node:path';
import ts from 'typescript';
import type { Block, Fault, Module } from './blocks.ts';
import { out, root } from './repository.ts';

/** The folder of the modules of a document, and the file of one in it. They are on no disk while they are compiled. */
export function fileOf(block: Block): string {
  return join(out, 'blocks', block.document.replace(/\.md$/, ''), block.name ?? `line-${block.line}.ts`);
}

/** All modules and `entries`, files on disk, as one program; what `before` has read of it is not read again. */
export function programOf(modules: readonly Module[], entries: readonly string[], before?: ts.Program): ts.Program {
  const byFile = new Map(modules.map((module) => [fileOf(module.block), module]));
  const host = ts.createCompilerHost(compilerOptions(), true);
  const disk = ts.createCompilerHost(compilerOptions(), true);
  host.fileExists = (file) => byFile.has(file) || disk.fileExists(file);
  host.readFile = (file) => byFile.get(file)?.code ?? disk.readFile(file);
  host.getSourceFile = (file, target, ...more) => {
    const module = byFile.get(file);
    return module === undefined
      ? disk.getSourceFile(file, target, ...more)
      : ts.createSourceFile(file, module.code, target, true);
  };
  // The folders of the modules need not be there for imports of packages to be looked for from them.
  delete host.directoryExists;
  return ts.createProgram([...byFile.keys(), ...entries], compilerOptions(), host, before);
}

/** What of `modules` does not compile, by document and line. */
export function compile(program: ts.Program, modules: readonly Module[]): Fault[] {
  return modules.flatMap((module) => {
    const source = program.getSourceFile(fileOf(module.block));
    return [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)].map((diagnostic) =>
      faultOf(diagnostic, module),
    );
  });
}

function faultOf(diagnostic: ts.Diagnostic, { block, shift }: Module): Fault {
  const line = diagnostic.file?.getLineAndCharacterOfPosition(diagnostic.start ?? 0).line ?? 0;
  const text = `TS${diagnostic.code}: ${ts.flattenDiagnosticMessageText(diagnostic.messageText, '\n')}`;
  return {
    document: block.document,
    line: block.line + Math.max(0, line - shift),
    text: line < shift ? `${text} (in what is given before the block)` : text,
  };
}

let options: ts.CompilerOptions | undefined;

/** Those of the packages, but that a block need not use all that it declares. */
function compilerOptions(): ts.CompilerOptions {
  if (options !== undefined) return options;
  const { config } = ts.readConfigFile(join(root, 'tsconfig.base.json'), (file) => ts.sys.readFile(file)) as {
    config: object;
  };
  const parsed = ts.parseJsonConfigFileContent({ ...config, files: [] }, ts.sys, root);
  return (options = {
    ...parsed.options,
    composite: false,
    declarationMap: false,
    emitDeclarationOnly: false,
    noEmit: true,
    noUnusedLocals: false,
    noUnusedParameters: false,
    // The sources of the packages are checked where they are.
    skipLibCheck: true,
    types: ['node'],
    typeRoots: [join(root, 'node_modules/@types')],
  });
}
