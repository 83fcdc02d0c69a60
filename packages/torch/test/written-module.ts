/** @file A module that is written for torch by value, with what Python has to see in it. */
import { Parameter, nn, tensor } from '@backwire/tensor';
import { stateOf } from '../src/values/module-state.ts';
import { PyName } from '../src/values/name.ts';
import { PyInstance } from '../src/values/objects.ts';

/** As Python has it in golden/nets.py. */
class Scale extends nn.Module {
  readonly weight = new Parameter(tensor([2, 3]));
  readonly count = this.registerBuffer('count', tensor(4));
  readonly bias = null;
  readonly label = 'scale';
}

/** What travels instead of the module. */
export const scale = new PyInstance(new PyName('nets', 'Scale'), [], { state: stateOf(new Scale().eval()) });

export const scaleText = [
  'nets.Scale{"training": False, ',
  '"_parameters": {"weight": Parameter(float32, [2], grad, storage 0 of 8, offset 0, strides [1], 0000004000004040)}, ',
  '"_buffers": {"count": Tensor(float32, [], storage 1 of 4, offset 0, strides [], 00008040)}, "_non_persistent_buffers_set": set{}, ',
  '"_backward_pre_hooks": OrderedDict{}, "_backward_hooks": OrderedDict{}, "_is_full_backward_hook": None, ',
  '"_forward_hooks": OrderedDict{}, "_forward_hooks_with_kwargs": OrderedDict{}, "_forward_hooks_always_called": OrderedDict{}, ',
  '"_forward_pre_hooks": OrderedDict{}, "_forward_pre_hooks_with_kwargs": OrderedDict{}, ',
  '"_state_dict_hooks": OrderedDict{}, "_state_dict_pre_hooks": OrderedDict{}, ',
  '"_load_state_dict_pre_hooks": OrderedDict{}, "_load_state_dict_post_hooks": OrderedDict{}, ',
  '"_modules": {}, "bias": None, "label": "scale"}',
].join('');
