/** @file Where torch has the modules that `nn` has here, too. */
import { PyName } from './name.ts';

const FILES: Readonly<Record<string, string>> = {
  linear: 'Linear Identity',
  conv: 'Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d',
  pooling: 'AdaptiveAvgPool1d AdaptiveAvgPool2d AvgPool1d AvgPool2d MaxPool1d MaxPool2d',
  dropout: 'Dropout Dropout1d Dropout2d Dropout3d',
  padding:
    'CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d',
  container: 'ModuleDict ModuleList ParameterDict ParameterList Sequential',
  rnn: 'GRU LSTM RNN GRUCell LSTMCell RNNCell',
  sparse: 'Embedding EmbeddingBag',
  flatten: 'Flatten Unflatten',
  distance: 'CosineSimilarity PairwiseDistance',
  pixelshuffle: 'PixelShuffle PixelUnshuffle',
  normalization: 'GroupNorm LayerNorm RMSNorm',
  batchnorm: 'BatchNorm1d BatchNorm2d BatchNorm3d',
  instancenorm: 'InstanceNorm1d InstanceNorm2d InstanceNorm3d',
  activation:
    'CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid LogSoftmax Mish MultiheadAttention PReLU ReLU ReLU6 SELU SiLU Sigmoid Softmax Softmin Softplus Softshrink Softsign Tanh Tanhshrink Threshold',
  upsampling: 'UpsamplingBilinear2d UpsamplingNearest2d',
  transformer: 'Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer',
};

const FILE_OF: ReadonlyMap<string, string> = new Map(
  Object.entries(FILES).flatMap(([file, names]) => names.split(' ').map((name) => [name, file] as const)),
);
const PACKAGE = 'torch.nn.modules.';

/** torch's class for one of `nn`: 'nn.Linear' is torch.nn.modules.linear.Linear. Undefined: torch has none of that name. */
export function torchModule(name: string): PyName | undefined {
  const own = /^nn\.(\w+)$/.exec(name)?.[1];
  const file = own === undefined ? undefined : FILE_OF.get(own);
  return own === undefined || file === undefined ? undefined : new PyName(PACKAGE + file, own);
}

/** The name in `nn` of one of torch's classes; undefined for a class that `nn` does not have. */
export function ownModule(module: string, name: string): string | undefined {
  return FILE_OF.get(name) === module.slice(PACKAGE.length) && module.startsWith(PACKAGE) ? `nn.${name}` : undefined;
}
