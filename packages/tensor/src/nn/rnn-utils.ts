/** @file `nn.utils.rnn`. */
export {
  PackedSequence,
  packPaddedSequence,
  packSequence,
  padPackedSequence,
  padSequence,
  unpadSequence,
} from './packed.ts';
