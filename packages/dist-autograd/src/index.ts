/** @file The public surface of @backwire/dist-autograd. */
export { backward, context, distAutograd, distAutogradDebugInfo, getGradients, type ContextId } from './api.ts';
export type { Gradients } from './engine/gradients.ts';
export type { BackwardOptions } from './pass-runner.ts';
export { DistributedOptimizer } from './optimizer.ts';
export { RemoteModule } from './remote-module.ts';
