/** @file Modules by value: what is in one here, and the `__dict__` that Python pickles of one. */
import { Tensor, nn, type Parameter } from '@backwire/tensor';
import { contentOf, restoreContent } from '@backwire/tensor/internal';
import { PyOrderedDict } from './containers.ts';
import { isParameter } from './opaque-tensor.ts';

/** Hooks are code, which does not travel. In the order in which torch makes the dicts for them. */
const HOOKS = [
  '_forward_hooks',
  '_forward_hooks_with_kwargs',
  '_forward_hooks_always_called',
  '_forward_pre_hooks',
  '_forward_pre_hooks_with_kwargs',
  '_state_dict_hooks',
  '_state_dict_pre_hooks',
  '_load_state_dict_pre_hooks',
  '_load_state_dict_post_hooks',
];
const BACKWARD_HOOKS = ['_backward_pre_hooks', '_backward_hooks'];
/** What torch keeps of a module beside its attributes. */
const OWN: ReadonlySet<unknown> = new Set([
  'training',
  '_parameters',
  '_buffers',
  '_non_persistent_buffers_set',
  '_is_full_backward_hook',
  '_modules',
]);
const ALL_HOOKS: ReadonlySet<unknown> = new Set([...BACKWARD_HOOKS, ...HOOKS]);

/** The `__dict__` of a module. @throws TypeError for lists of parameters and modules, which Python does not have. */
export function stateOf(module: nn.Module): Map<string, unknown> {
  const { training, fields, buffers } = contentOf(module);
  const parameters = new Map<string, Parameter>();
  const modules = new Map<string, nn.Module>();
  const attributes = new Map<string, unknown>();
  for (const [name, value] of fields) {
    if (isParameter(value)) parameters.set(name, value);
    else if (value instanceof nn.Module) modules.set(name, value);
    else attributes.set(name, plain(name, value));
  }
  const hooks = (names: readonly string[]): [string, unknown][] => names.map((name) => [name, new PyOrderedDict()]);
  return new Map<string, unknown>([
    ['training', training],
    ['_parameters', parameters],
    ['_buffers', new Map(buffers)],
    ['_non_persistent_buffers_set', new Set()],
    ...hooks(BACKWARD_HOOKS),
    ['_is_full_backward_hook', null],
    ...hooks(HOOKS),
    ['_modules', modules],
    ...attributes,
  ]);
}

function plain(name: string, value: unknown): unknown {
  if (Array.isArray(value) && value.some((item) => isParameter(item) || item instanceof nn.Module))
    throw new TypeError(
      `'${name}' is a list of parameters or modules, which no module of Python has: send its stateDict()`,
    );
  return value;
}

/** Puts the `__dict__` that Python pickled of a module into one whose constructor was not run. @throws TypeError for what is no such dict. */
export function restoreState(module: nn.Module, state: ReadonlyMap<string, unknown>): void {
  const training = state.get('training');
  if (typeof training !== 'boolean') throw new TypeError('a module that does not say whether it is training');
  const buffers = part(state, '_buffers', Tensor);
  const fields = new Map<string, unknown>([
    ...part(state, '_parameters', Tensor),
    ...part(state, '_modules', nn.Module),
    ...Array.from(buffers).filter(([, value]) => value === null),
  ]);
  for (const [name, value] of state) {
    if (OWN.has(name)) continue;
    if (!ALL_HOOKS.has(name)) fields.set(name, value);
    else if (!(value instanceof Map) || value.size > 0) throw new TypeError('a module with hooks, which are code');
  }
  const tensors = Array.from(buffers).filter((entry): entry is [string, Tensor] => entry[1] !== null);
  restoreContent(module, { training, fields, buffers: new Map(tensors) });
}

/** One of the dicts that a module has: of things of a class, or None. */
function part<T>(
  state: ReadonlyMap<string, unknown>,
  name: string,
  type: abstract new (...args: never[]) => T,
): ReadonlyMap<string, T | null> {
  const found = state.get(name);
  const isPart = (value: unknown): boolean => value === null || value instanceof type;
  if (!(found instanceof Map) || ![...found.values()].every(isPart))
    throw new TypeError(`a module whose ${name} are something else`);
  return found as ReadonlyMap<string, T | null>;
}
