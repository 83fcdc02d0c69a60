/** @file The parameter groups of a DistributedOptimizer: options that its owner changes here, and that owners of parameters learn with the next step. */
import { isRRef, type RRef } from '@backwire/rref';
import { zeros, type optim, type Tensor } from '@backwire/tensor';
import { kindOf } from '@backwire/tensor/internal';
import { isGroup, type GivenRemoteGroup, type OptionChanges } from './local-optimizer.ts';

/** Parameters and the options of their updates. Options may be changed between steps: `paramGroups[0].lr = 0.01`. */
export interface RemoteParamGroup {
  readonly params: readonly RRef<Tensor>[];
  /** Learning rate. */
  lr: number;
  /** The optimiser's other options, by the names its constructor takes, and what a scheduler notes. */
  [option: string]: unknown;
}

/** Options by their names. */
type Options = Readonly<Record<string, unknown>>;

/** An optimiser made here of the same class with the same options, to know which there are. */
export type Template = (groups: readonly optim.GivenGroup[]) => optim.Optimizer;

export class RemoteGroups {
  private readonly given: readonly GivenRemoteGroup[];
  private readonly template: Template;
  private groups: [RemoteParamGroup, ...RemoteParamGroup[]] | undefined;
  /** The options as they were given. */
  private first: readonly Options[] = [];

  constructor(given: readonly GivenRemoteGroup[], template: Template) {
    this.given = given;
    this.template = template;
  }

  /** Made when they are first asked for: most programs never change an option. */
  get all(): readonly [RemoteParamGroup, ...RemoteParamGroup[]] {
    if (this.groups !== undefined) return this.groups;
    const options = this.template(
      this.given.map(({ params: _, ...own }) => ({ ...own, params: [zeros([], { requiresGrad: true })] })),
    ).paramGroups.map(({ params: _, ...rest }): Options => rest);
    this.first = options.map(copied);
    this.groups = options.map((own, i) => ({
      ...copied(own),
      params: this.given[i]?.params ?? [],
    })) as unknown as [RemoteParamGroup, ...RemoteParamGroup[]];
    return this.groups;
  }

  /** The options in force, a group each; undefined while nobody has looked at them, and so changed none. */
  get inForce(): readonly Options[] | undefined {
    const { groups } = this;
    if (groups === undefined) return undefined;
    return this.first.map((names, i) =>
      copied(Object.fromEntries(Object.keys(names).map((name) => [name, groups[i]?.[name]]))),
    );
  }

  /** The options that an owner began with. */
  get atFirst(): readonly Options[] {
    return this.first;
  }
}

/** What one owner was told of the options. While a change is unanswered, and after one that failed, it is told all of them anew. */
export class ToldOptions {
  /** What it is sure to have; undefined when that is in doubt. */
  private known: readonly Options[] | 'as given' | undefined = 'as given';
  private changes = 0;

  /** Steps by `ask`, with what of the options `now` the owner is not sure to have; `first` are those it began with. */
  async tell<T>(now: readonly Options[], first: readonly Options[], ask: Ask<T>): Promise<T> {
    const changes = changesOf(now, this.known === 'as given' ? first : this.known);
    if (changes === undefined) return ask();
    const change = ++this.changes;
    this.known = undefined;
    const result = await ask(changes);
    if (change === this.changes) this.known = now;
    return result;
  }
}

/** Asks an owner for a step, under options that changed. */
type Ask<T> = (...changes: [] | [OptionChanges]) => Promise<T>;

/** What of the options `now` differs from `known`, or all where nothing is known; undefined when nothing does. */
function changesOf(now: readonly Options[], known: readonly Options[] | undefined): OptionChanges | undefined {
  const changes = now.map((options, i) => {
    const before = known?.[i];
    const changed = Object.entries(options).filter(([name, value]) => !before || !isSame(value, before[name]));
    return changed.length === 0 ? null : Object.fromEntries(changed);
  });
  return changes.every((change) => change === null) ? undefined : changes;
}

/** Parameters, or groups of them, as groups. @throws TypeError naming what is none: programs without types may give parameters themselves. */
export function groupsOf(params: unknown): readonly GivenRemoteGroup[] {
  if (!Array.isArray(params))
    throw new TypeError(`a DistributedOptimizer takes a list of RRefs to parameters, got ${kindOf(params)}`);
  const list: readonly unknown[] = params;
  if (!list.some(isGroup)) return [{ params: list.map((one, i) => checked(one, `parameter ${i}`)) }];
  return list.map((group, g) => {
    if (!isGroup(group))
      throw new TypeError(`a DistributedOptimizer takes RRefs or groups of them; group ${g} is none`);
    if (group.params.length === 0) throw new RangeError(`optimizer got an empty list of parameters in group ${g}`);
    return { ...group, params: group.params.map((one, i) => checked(one, `parameter ${i} of group ${g}`)) };
  });
}

function checked(param: unknown, what: string): RRef<Tensor> {
  if (isRRef(param)) return param as RRef<Tensor>;
  const text = `a DistributedOptimizer takes RRefs to parameters; ${what} is none: createRRef() makes one of a tensor that is here`;
  throw new TypeError(text);
}

/** Lists among the options, such as Adam's betas, are the copy's own. */
function copied(options: Options): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(options).map(([name, value]) => [name, Array.isArray(value) ? [...(value as unknown[])] : value]),
  );
}

function isSame(a: unknown, b: unknown): boolean {
  if (!Array.isArray(a) || !Array.isArray(b)) return Object.is(a, b);
  return a.length === b.length && a.every((value, i) => Object.is(value, b[i]));
}
