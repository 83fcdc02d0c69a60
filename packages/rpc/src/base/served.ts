/** @file What one agent serves: of all that has a name in the process, what calls may name. */
import type { Named } from '@backwire/tensor';
import { nearestName } from '@backwire/tensor/internal';
import {
  definitionOfClass,
  definitionOfInstance,
  definitions,
  findDefinition,
  localDefinition,
  type Definition,
  type Kind,
} from './definitions.ts';
import { RpcError } from './errors.ts';
import { MAX_COMPARED_NAME, MAX_NAME_ADVICE_A_SECOND, MAX_NAMES_COMPARED } from './limits.ts';
import { estimateInstance, estimateResult } from './result-estimate.ts';
import { system } from './system-error.ts';
import { checkFirst } from './builtins.ts';

export interface ServedOptions {
  /** The worker's name, for messages. */
  readonly worker: string;
  /** Undefined = all that is defined. */
  readonly serve: readonly Named[] | undefined;
  /** Whether builtins are served that are not in the list. */
  readonly builtins: boolean;
  /** What a builtin may make, in bytes. */
  readonly maxResultBytes: number;
}

/** The one gate in front of everything that a call can name: functions, classes, and through their classes the methods of objects. */
export class Served {
  /** Changes whenever what is served does. */
  version = 0;
  private readonly worker: string;
  private readonly builtins: boolean;
  private readonly maxResultBytes: number;
  /** Whether only `own` is served of what the program has defined. */
  private readonly narrowed: boolean;
  /** What the list names, and what was registered for this agent. */
  private readonly own = new Map<string, Definition>();
  private readonly listed: ReadonlySet<string>;
  /** Kinds of which something is served; found again when that changes. */
  private readonly kinds = new Set<Kind>();
  /** How often a caller was told what it had probably meant, and since when. */
  private advised = 0;
  private advisedSince = -Infinity;

  constructor({ worker, serve, builtins, maxResultBytes }: ServedOptions) {
    this.worker = worker;
    this.builtins = builtins;
    this.maxResultBytes = maxResultBytes;
    this.narrowed = serve !== undefined;
    this.listed = new Set((serve ?? []).map((definition) => this.adopt(definition)));
  }

  /** What calls of `name` run. @throws RpcError 'not-found', 'permission-denied'. */
  find(name: string): Definition {
    const definition = this.own.get(name) ?? findDefinition(name);
    if (definition === undefined) {
      throw new RpcError(
        'not-found',
        `function '${name}' is not defined on worker '${this.worker}'${this.adviceFor(name)} Ensure that it is defined on both caller and callee`,
      );
    }
    this.check(definition);
    return definition;
  }

  /** As `find`; undefined for what it refuses, without an error: peers may name many things that are not here. */
  tryFind(name: string): Definition | undefined {
    const definition = this.own.get(name) ?? findDefinition(name);
    return definition !== undefined && this.serves(definition) ? definition : undefined;
  }

  /** What was probably meant, of what the caller may call; the end of a sentence. */
  private adviceFor(name: string): string {
    const now = performance.now();
    if (now - this.advisedSince >= 1_000) [this.advisedSince, this.advised] = [now, 0];
    if (++this.advised > MAX_NAME_ADVICE_A_SECOND) return '.';
    const served = [...this.own.values(), ...definitions()].filter(
      (each) => each.origin !== 'system' && each.name.length <= MAX_COMPARED_NAME && this.serves(each),
    );
    const near = nearestInSpace(
      name,
      served.slice(0, MAX_NAMES_COMPARED).map((each) => each.name),
    );
    return near === undefined ? '.' : `; did you mean '${near}'?`;
  }

  /** The published class of an object that lives here; undefined when it has none. @throws RpcError 'permission-denied'. */
  classOf(instance: unknown): Definition | undefined {
    const definition = definitionOfInstance(instance);
    if (definition !== undefined) this.check(definition);
    return definition;
  }

  /**
   * Whether an operation of a tensor that lives here may be called; the tensor is the first of `args`.
   * @throws RpcError 'permission-denied'; 'resource-exhausted' for a result past the limit.
   */
  checkTensors(method: string, args: readonly unknown[]): void {
    if (!this.builtins) throw this.refusal('the operations of its tensors', 'set `builtins: true` for that');
    this.checkBytes(method, estimateResult(method, args));
  }

  /** Looks at what a builtin is to make before it is made. @throws RpcError 'resource-exhausted'; TypeError for one that is given no tensor. */
  checkResult({ name, kind, origin }: Definition, args: readonly unknown[]): void {
    if (origin !== 'builtin') return;
    if (name.startsWith('aten::')) checkFirst(name, args);
    this.checkBytes(name, kind === 'class' ? estimateInstance(args) : estimateResult(name, args));
  }

  private checkBytes(name: string, bytes: number): void {
    if (!(bytes > this.maxResultBytes)) return;
    const text = `the result of '${name}' would have ${bytes} bytes; worker '${this.worker}' makes at most ${this.maxResultBytes} for a peer (limits.maxResultBytes)`;
    throw system(new RpcError('resource-exhausted', text, { executed: 'no' }));
  }

  /** Serves a definition from now on, whatever the list says. Returns how to end that. */
  register(definition: Named): () => void {
    const name = this.adopt(definition);
    const added = this.own.get(name);
    return () => {
      if (this.own.get(name) !== added || this.listed.has(name)) return;
      this.own.delete(name);
      this.changed();
    };
  }

  private adopt(definition: Named): string {
    const made = localDefinition(definition);
    const known = this.own.get(made.name) ?? findDefinition(made.name);
    if (known !== undefined && known.body !== made.body) {
      throw new RpcError(
        'failed-precondition',
        `'${made.name}' means something else on worker '${this.worker}' already`,
      );
    }
    this.own.set(made.name, known ?? made);
    this.changed();
    return made.name;
  }

  private changed(): void {
    this.version++;
    this.kinds.clear();
  }

  /** @throws RpcError 'permission-denied' for what is not served. */
  private check(definition: Definition): void {
    const { name, origin, runs } = definition;
    if (this.serves(definition)) return;
    const what = `'${name}'`;
    if (runs !== undefined) throw this.refusal(what, `it serves no ${runs.text} (see \`serve\` and \`builtins\`)`);
    const way = origin === 'builtin' ? 'set `builtins: true` or name it in `serve`' : 'it is not named in `serve`';
    throw this.refusal(what, way);
  }

  private serves(definition: Definition): boolean {
    const { name, body, origin, runs } = definition;
    if (this.own.get(name)?.body === body) return true;
    if (origin === 'system') return runs === undefined || this.servesSome(runs);
    if (origin === 'builtin') return this.builtins;
    return !this.narrowed || this.servesHolder(definition);
  }

  /** A static method goes with its class. */
  private servesHolder({ self }: Definition): boolean {
    const holder = self === undefined ? undefined : definitionOfClass(self);
    return holder !== undefined && this.own.has(holder.name);
  }

  private servesSome(kind: Kind): boolean {
    // There are builtins of every kind.
    if (this.builtins || this.kinds.has(kind)) return true;
    const program = definitions().filter((each) => each.origin === 'program' && this.serves(each));
    const found = [...program, ...this.own.values()].some((each) => kind.includes(each));
    if (found) this.kinds.add(kind);
    return found;
  }

  private refusal(what: string, why: string): RpcError {
    return new RpcError('permission-denied', `worker '${this.worker}' does not serve ${what}: ${why}`);
  }
}

/** As `nearestName`; what two names begin with alike, 'app/' or 'Model.', makes neither near to the other. */
function nearestInSpace(name: string, names: readonly string[]): string | undefined {
  const space = spaceOf(name);
  const [inside, outside]: [string[], string[]] = [[], []];
  for (const each of names) (spaceOf(each) === space ? inside : outside).push(each);
  const rest = nearestName(
    name.slice(space.length),
    inside.map((each) => each.slice(space.length)),
  );
  return rest === undefined ? nearestName(name, outside) : space + rest;
}

function spaceOf(name: string): string {
  return name.slice(0, 1 + Math.max(name.lastIndexOf('/'), name.lastIndexOf('.'), name.lastIndexOf(':')));
}
