/** @file The public surface of @backwire/dist-autograd. */
// What peers call is defined here even if a bundler finds that this program makes no optimiser and no module itself.
import './local-optimizer.ts';
import './remote-module.ts';

export { backward, context, distAutograd, distAutogradDebugInfo, getGradients, type ContextId } from './api.ts';
export type { Gradients } from './engine/gradients.ts';
export type { BackwardOptions } from './pass-runner.ts';
export { DistributedOptimizer, type ClipOptions } from './optimizer.ts';
export type { GivenRemoteGroup } from './local-optimizer.ts';
export type { RemoteParamGroup } from './optimizer-groups.ts';
export { RemoteModule } from './remote-module.ts';
