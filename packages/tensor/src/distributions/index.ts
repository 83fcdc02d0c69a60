/** @file Probability distributions, as torch.distributions has them. */
export { Cauchy, Exponential, Gumbel, HalfNormal, Laplace, LogNormal, Normal, Uniform } from './continuous.ts';
export { Bernoulli, Categorical, Geometric, OneHotCategorical } from './discrete.ts';
export { Distribution, type DistributionOptions, type Odds, type Param } from './distribution.ts';
export { klDivergence } from './divergence.ts';
export { Independent } from './independent.ts';
