/** @file Modules by value: the dict that Python has of one, and back. */
import { Parameter, nn, tensor, type Tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { PyOrderedDict } from './containers.ts';
import { restoreState, stateOf } from './module-state.ts';

class Scale extends nn.Module {
  readonly weight = new Parameter(tensor([2, 3]));
  readonly bias: Parameter | null = null;
  readonly count = this.registerBuffer('count', tensor(4));
  label = 'scale';
}
class Net extends nn.Module {
  readonly first = new Scale();
  readonly again = this.first;
  readonly sizes = [1, 2];
  constructor() {
    super();
    // A buffer whose name no field has.
    this.registerBuffer('mean', tensor([5]));
  }
}

/** A module whose constructor was not run, with this state. */
function restored<M extends nn.Module>(Class: new () => M, state: ReadonlyMap<string, unknown>): M {
  const module = Object.create(Class.prototype as object) as M;
  restoreState(module, state);
  return module;
}

const text = (module: nn.Module): unknown[] =>
  [...module.stateDict()].map(([name, value]: [string, Tensor]) => [name, value.toArray()]);

describe('the state of a module', () => {
  it('has parameters, buffers and modules where Python has them, and all else beside them', () => {
    const net = new Net();
    const state = stateOf(net.eval());
    expect(state.get('training')).toBe(false);
    expect([...(state.get('_modules') as Map<string, unknown>)]).toEqual([
      ['first', net.first],
      ['again', net.first],
    ]);
    expect([...(state.get('_buffers') as Map<string, Tensor>).keys()]).toEqual(['mean']);
    expect(state.get('sizes')).toBe(net.sizes);
    const inner = stateOf(net.first);
    expect([...(inner.get('_parameters') as Map<string, unknown>)]).toEqual([['weight', net.first.weight]]);
    expect([...(inner.get('_buffers') as Map<string, unknown>)]).toEqual([['count', net.first.count]]);
    expect([inner.get('bias'), inner.get('label'), inner.has('count'), inner.has('held')]).toEqual([
      null,
      'scale',
      false,
      false,
    ]);
  });

  it('makes a module of the same class work as the one that it was taken of', () => {
    const net = new Net().eval();
    const state = stateOf(net);
    state.set('_modules', new Map([['first', restored(Scale, stateOf(net.first))]]));
    const copy = restored(Net, state);
    expect(copy).toBeInstanceOf(Net);
    expect(copy.training).toBe(false);
    expect(text(copy)).toEqual([
      ['mean', [5]],
      ['first.weight', [2, 3]],
      ['first.count', 4],
    ]);
    expect(copy.first.label).toBe('scale');
    expect(copy.first.bias).toBeNull();
    expect(copy.first.count.item()).toBe(4);
    expect(copy.train().first.training).toBe(true);
  });

  it('that Python has of a parameter or buffer that is None is null', () => {
    const state = stateOf(new Scale());
    state.set(
      '_parameters',
      new Map<string, unknown>([...(state.get('_parameters') as Map<string, unknown>), ['bias', null]]),
    );
    state.set('_buffers', new Map([['count', null]]));
    const copy = restored(Scale, state);
    expect([copy.bias, copy.count]).toEqual([null, null]);
    expect(copy.buffers()).toEqual([]);
    expect(copy.parameters()).toEqual([copy.weight]);
  });

  it('is refused where Python has no such module', () => {
    class Listed extends nn.Module {
      readonly layers = [new Scale()];
    }
    expect(() => stateOf(new Listed())).toThrow(/'layers' is a list of parameters or modules/);
  });

  it.each<[string, string, unknown, RegExp]>([
    ['without a mode', 'training', 1, /whether it is training/],
    ['with parameters that are none', '_parameters', new Map([['w', 5]]), /whose _parameters are something else/],
    ['with modules that are none', '_modules', [], /whose _modules are something else/],
    ['with buffers that are none', '_buffers', new Map([['b', 'x']]), /whose _buffers are something else/],
    ['with hooks', '_forward_hooks', new PyOrderedDict([[0, 'hook']]), /a module with hooks, which are code/],
    ['with no dict of hooks', '_backward_hooks', null, /a module with hooks, which are code/],
  ])('%s is refused', (_, name, value, message) => {
    const state = stateOf(new Scale()).set(name, value);
    expect(() => restored(Scale, state)).toThrow(message);
  });
});
