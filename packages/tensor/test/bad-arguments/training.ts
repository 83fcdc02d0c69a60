/** @file Valid calls of what training is made of beside layers and optimisers: schedules of rates, scalers, first weights, utilities. */
import { ones, optim, type Tensor, GradScaler } from '../../src/index.ts';
import { matrix, parameter, square, type Arguments } from './values.ts';

interface Made {
  readonly args: Arguments;
  readonly methods?: Readonly<Record<string, Arguments>>;
}

const { lrScheduler } = optim;
const optimizer = (): optim.SGD => new optim.SGD([parameter()], { lr: 0.1, momentum: 0.9 });

/** Goes on from its own state. */
const loads = (name: keyof typeof lrScheduler, args: Arguments): Made => ({
  args,
  methods: {
    loadStateDict: () => {
      const Class = lrScheduler[name] as unknown as new (...all: unknown[]) => { stateDict(): unknown };
      return [new Class(...args()).stateDict()];
    },
  },
});

const SCHEDULES: Readonly<Record<string, Made>> = {
  StepLR: loads('StepLR', () => [optimizer(), 2, { gamma: 0.5 }]),
  MultiStepLR: loads('MultiStepLR', () => [optimizer(), [1, 2], { gamma: 0.5 }]),
  ExponentialLR: loads('ExponentialLR', () => [optimizer(), 0.5]),
  ConstantLR: loads('ConstantLR', () => [optimizer(), { factor: 0.5, totalIters: 2 }]),
  LinearLR: loads('LinearLR', () => [optimizer(), { startFactor: 0.5, endFactor: 1, totalIters: 2 }]),
  PolynomialLR: loads('PolynomialLR', () => [optimizer(), { totalIters: 3, power: 1 }]),
  CosineAnnealingLR: loads('CosineAnnealingLR', () => [optimizer(), 3, { etaMin: 0.1 }]),
  CosineAnnealingWarmRestarts: loads('CosineAnnealingWarmRestarts', () => [optimizer(), 3, { tMult: 2, etaMin: 0 }]),
  LambdaLR: loads('LambdaLR', () => [optimizer(), (): number => 1]),
  MultiplicativeLR: loads('MultiplicativeLR', () => [optimizer(), (): number => 1]),
  CyclicLR: loads('CyclicLR', () => [optimizer(), { baseLr: 0.1, maxLr: 0.5, stepSizeUp: 2, mode: 'triangular' }]),
  OneCycleLR: loads('OneCycleLR', () => [optimizer(), { maxLr: 0.5, totalSteps: 10 }]),
  ReduceLROnPlateau: {
    args: () => [optimizer(), { mode: 'min', factor: 0.5, patience: 1, thresholdMode: 'rel', minLr: 0 }],
    methods: {
      step: () => [0.5],
      loadStateDict: () => [new lrScheduler.ReduceLROnPlateau(optimizer()).stateDict()],
    },
  },
  SequentialLR: {
    args: () => {
      const one = optimizer();
      return [one, [new lrScheduler.ConstantLR(one), new lrScheduler.ExponentialLR(one, 0.5)], [2]];
    },
  },
  ChainedScheduler: { args: () => [[new lrScheduler.ConstantLR(optimizer())]], methods: { step: () => [] } },
};

export const TRAINING: Readonly<Record<string, Made>> = {
  ...Object.fromEntries(Object.entries(SCHEDULES).map(([name, made]) => [`optim.lrScheduler.${name}`, made])),
  GradScaler: {
    args: () => [{ initScale: 2, growthFactor: 2, backoffFactor: 0.5, growthInterval: 3, enabled: true }],
    methods: {
      scale: () => [ones([2])],
      loadStateDict: () => [new GradScaler().stateDict()],
    },
  },
};

const window = (): Tensor => ones([2, 2, 3]);
const withGradient = (): Tensor[] => {
  const p = parameter();
  p.grad = ones([2]);
  return [p];
};

export const WEIGHTS: Readonly<Record<string, Arguments>> = {
  'nn.init.uniform_': () => [matrix(), 0, 1],
  'nn.init.normal_': () => [matrix(), 0, 1],
  'nn.init.constant_': () => [matrix(), 2],
  'nn.init.ones_': () => [matrix()],
  'nn.init.zeros_': () => [matrix()],
  'nn.init.eye_': () => [matrix()],
  'nn.init.truncNormal_': () => [matrix(), 0, 1, -2, 2],
  'nn.init.xavierUniform_': () => [matrix(), 1],
  'nn.init.xavierNormal_': () => [matrix(), 1],
  'nn.init.kaimingUniform_': () => [matrix(), { a: 0, mode: 'fanIn', nonlinearity: 'relu' }],
  'nn.init.kaimingNormal_': () => [matrix(), { a: 0, mode: 'fanOut', nonlinearity: 'relu' }],
  'nn.init.orthogonal_': () => [square(), 1],
  'nn.init.dirac_': () => [window(), 1],
  'nn.init.sparse_': () => [matrix(), 0.5, 0.1],
  'nn.init.calculateGain': () => ['leakyRelu', 0.1],
  'nn.utils.clipGradNorm_': () => [withGradient(), 1, { normType: 2, errorIfNonfinite: true }],
  'nn.utils.clipGradValue_': () => [withGradient(), 1],
  'nn.utils.clipGradsWithNorm_': () => [[ones([2])], 1, 2],
  'nn.utils.getTotalNorm': () => [[ones([2])], { normType: 2, errorIfNonfinite: true }],
  'nn.utils.parametersToVector': () => [[parameter()]],
  'nn.utils.vectorToParameters': () => [ones([2]), [parameter()]],
};
