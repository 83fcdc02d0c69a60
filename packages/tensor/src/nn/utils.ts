/** @file `nn.utils`. */
export {
  clipGradNorm_,
  clipGradsWithNorm_,
  clipGradValue_,
  getTotalNorm,
  parametersToVector,
  vectorToParameters,
  type ClipOptions,
} from './clip.ts';
export * as rnn from './rnn-utils.ts';
