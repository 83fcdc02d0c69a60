/** @file What the public functions, methods and classes take, from their types, as the text of `src/gen/arguments.ts`. */
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import * as prettier from 'prettier';
import * as tensors from '../src/index.ts';

const entry = fileURLToPath(new URL('../src/index.ts', import.meta.url));
const project = fileURLToPath(new URL('../tsconfig.lib.json', import.meta.url));

/** How deep lists and options are looked into. */
const DEEPEST = 3;

/** Writes types as `src/arguments.ts` reads them. */
class Writer {
  private readonly checker: ts.TypeChecker;

  constructor(checker: ts.TypeChecker) {
    this.checker = checker;
  }

  /** The kind of the values of a type; 'any' where they are not looked at. */
  kind(type: ts.Type, depth = 0): string {
    const own = type.isTypeParameter() ? this.checker.getBaseConstraintOfType(type) : type;
    if (own === undefined || depth > DEEPEST) return 'any';
    if (own.isIntersection()) return this.options(own, depth);
    if (own.isUnion()) return this.either(own.types, depth);
    if (own.isStringLiteral()) return `'${own.value}'`;
    const { flags } = own;
    if (flags & ts.TypeFlags.NumberLike) return 'number';
    if (flags & ts.TypeFlags.BooleanLike) return 'boolean';
    if (flags & ts.TypeFlags.BigIntLike) return 'bigint';
    if (flags & (ts.TypeFlags.String | ts.TypeFlags.TemplateLiteral)) return 'text';
    if (flags & ts.TypeFlags.Null) return 'null';
    if (flags & (ts.TypeFlags.Undefined | ts.TypeFlags.Void)) return 'undefined';
    return flags & ts.TypeFlags.Object ? this.object(own as ts.ObjectType, depth) : 'any';
  }

  private either(types: readonly ts.Type[], depth: number): string {
    const kinds = [...new Set(types.map((one) => this.kind(one, depth)))];
    return kinds.includes('any') ? 'any' : kinds.join('|').replace(DTYPES, 'dtype');
  }

  private object(type: ts.ObjectType, depth: number): string {
    const name = (type.symbol as ts.Symbol | undefined)?.name;
    if (name === 'Tensor' || name === 'Parameter') return 'tensor';
    if (this.checker.isArrayType(type) || this.checker.isTupleType(type)) {
      const kind = this.either(this.checker.getTypeArguments(type as ts.TypeReference), depth + 1);
      return kind.includes('|') ? `(${kind})[]` : `${kind}[]`;
    }
    if (type.getConstructSignatures().length > 0) return 'any';
    return type.getCallSignatures().length > 0 ? 'function' : this.options(type, depth);
  }

  private options(type: ts.Type, depth: number): string {
    const properties = type.getProperties();
    const plain = properties.length > 0 && properties.every(({ flags }) => (flags & ts.SymbolFlags.Property) !== 0);
    if (!plain || type.isClass() || properties.some(({ name }) => name.startsWith('__'))) return 'any';
    if (this.checker.getIndexInfosOfType(type).length > 0) return 'any';
    const entries = properties.map((one) => {
      const optional = (one.flags & ts.SymbolFlags.Optional) !== 0;
      return `${one.name}${this.typed(this.checker.getTypeOfSymbol(one), optional, depth + 1)}`;
    });
    return `{${entries.join(',')}}`;
  }

  private typed(type: ts.Type, optional: boolean, depth: number): string {
    const kind = this.kind(type, depth);
    if (!optional) return `:${kind}`;
    const given = kind.split('|').filter((one) => one !== 'undefined');
    return `?:${given.join('|')}`;
  }

  /** Each way of calling: its parameters. */
  ways(signatures: readonly ts.Signature[]): string {
    return signatures
      .map(
        (one) =>
          `(${one
            .getParameters()
            .map((each) => this.parameter(each))
            .join(',')})`,
      )
      .join('');
  }

  private parameter(symbol: ts.Symbol): string {
    const declared = symbol.valueDeclaration as ts.ParameterDeclaration;
    const type = this.checker.getTypeOfSymbol(symbol);
    const optional = declared.questionToken !== undefined || declared.initializer !== undefined;
    const name = symbol.name.replace(/^_+/, '');
    if (declared.dotDotDotToken === undefined) return `${name}${this.typed(type, optional, 0)}`;
    const kind = this.kind(type);
    return `...${name}:${kind.endsWith('[]') ? kind : 'any[]'}`;
  }
}

const DTYPES = "'float32'|'float64'|'float16'|'bfloat16'|'int64'|'int32'|'int16'|'int8'|'uint8'|'bool'|'complex64'";

/** What says itself what it takes, and better: with what was probably meant. */
const OWN: ReadonlySet<string> = new Set(['#backward', '#split']);

/** 'aten::repeat' of what has such a name. */
function publicName(value: unknown): string | undefined {
  const name = (value as Readonly<Record<symbol, unknown>> | undefined)?.[tensors.rpcName as unknown as symbol];
  return typeof name === 'string' ? name : undefined;
}

/** The text of the module that says what everything takes. */
export async function argumentsText(): Promise<string> {
  const config = ts.getParsedCommandLineOfConfigFile(
    project,
    {},
    { ...ts.sys, onUnRecoverableConfigFileDiagnostic: fail },
  );
  if (config === undefined) throw new Error(`no project at ${project}`);
  const program = ts.createProgram([entry], config.options);
  const checker = program.getTypeChecker();
  const writer = new Writer(checker);
  const source = program.getSourceFile(entry);
  const root = source === undefined ? undefined : checker.getSymbolAtLocation(source);
  if (root === undefined) throw new Error(`no module at ${entry}`);
  const found = new Map<string, string>();
  const known = new Set<string>();

  const walk = (module: ts.Symbol, values: Readonly<Record<string, unknown>>, prefix: string): void => {
    for (const symbol of checker.getExportsOfModule(module)) {
      const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
      const value = values[symbol.name];
      const path = `${prefix}${symbol.name}`;
      if (target.flags & ts.SymbolFlags.Module) {
        walk(target, value as Readonly<Record<string, unknown>>, `${path}.`);
        continue;
      }
      if (typeof value !== 'function') continue;
      const type = checker.getTypeOfSymbol(target);
      const calls = type.getCallSignatures();
      if (target.flags & ts.SymbolFlags.Class) {
        const made = type.getConstructSignatures();
        if (prefix !== '' && made.length > 0) found.set(path, `${path}${writer.ways(made)}`);
      } else if (calls.length > 0) {
        const name = publicName(value);
        if (prefix === '' && name !== undefined) known.add(symbol.name);
        found.set(name ?? path, `${path}${writer.ways(calls)}`);
      }
    }
  };
  walk(root, tensors, '');

  const tensor = checker.getExportsOfModule(root).find(({ name }) => name === 'Tensor') as ts.Symbol;
  const instance = checker.getDeclaredTypeOfSymbol(
    tensor.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(tensor) : tensor,
  );
  const methods = Object.getOwnPropertyNames(tensors.Tensor.prototype);
  for (const method of instance.getProperties()) {
    const calls = checker.getTypeOfSymbol(method).getCallSignatures();
    // What is @internal comes from this package alone.
    const own = method.valueDeclaration;
    const hidden =
      method.getJsDocTags().some(({ name }) => name === 'internal') ||
      (own !== undefined && (ts.getCombinedModifierFlags(own) & ts.ModifierFlags.Private) !== 0);
    if (hidden || !methods.includes(method.name) || known.has(method.name) || calls.length === 0) continue;
    if (calls.every((one) => one.getParameters().length === 0)) continue;
    found.set(`#${method.name}`, `${method.name}${writer.ways(calls)}`);
  }
  const entries = [...found]
    .filter(([name, ways]) => /:(?!any)/.test(ways) && !OWN.has(name))
    .sort(([a], [b]) => (a < b ? -1 : 1));
  const lines = entries.map(([name, ways]) => `  '${name}': ${JSON.stringify(ways)},`);
  const text = `/** @file What public functions, methods and classes take. Generated by \`npm run generate\` from their types. */

/** How each is called, by the name that peers use; without one by 'zeros' or 'nn.Linear', and '#view' for methods. */
export const ARGUMENTS: Readonly<Record<string, string>> = {
${lines.join('\n')}
};
`;
  return prettier.format(text, { ...(await prettier.resolveConfig(entry)), parser: 'typescript' });
}

function fail(diagnostic: ts.Diagnostic): never {
  throw new Error(ts.flattenDiagnosticMessageText(diagnostic.messageText, '\n'));
}
