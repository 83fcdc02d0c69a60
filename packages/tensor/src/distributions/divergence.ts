/** @file Kullback-Leibler divergences of two distributions of one kind, in closed form. */
import { kindOf } from '../given.ts';
import { where } from '../ops/where.ts';
import { softplus } from '../ops/unary.ts';
import { sweep } from '../scope.ts';
import type { Tensor } from '../tensor.ts';
import { Exponential, HalfNormal, Laplace, LogNormal, Normal, Uniform } from './continuous.ts';
import { Bernoulli, Categorical, Geometric, OneHotCategorical } from './discrete.ts';
import { Distribution } from './distribution.ts';
import { addUp, Independent } from './independent.ts';

/** KL(p ‖ q), one number for each of the batch. @throws TypeError where no closed form is known for the two. */
export function klDivergence(p: Distribution, q: Distribution): Tensor {
  for (const one of [p, q])
    if (!(one instanceof Distribution))
      throw new TypeError(`klDivergence() takes two distributions, got ${kindOf(one)}`);
  return sweep(() => {
    const found = ofLocScale(p, q) ?? ofChoices(p, q) ?? ofOthers(p, q);
    if (found === undefined)
      throw new TypeError(
        `No KL(p || q) is implemented for p type ${p.constructor.name} and q type ${q.constructor.name}`,
      );
    return found;
  });
}

function ofNormals(p: Normal, q: Normal): Tensor {
  const ratio = p.scale.div(q.scale).square();
  return ratio.add(p.loc.sub(q.loc).div(q.scale).square()).sub(1).sub(ratio.log()).mul(0.5);
}

function ofLocScale(p: Distribution, q: Distribution): Tensor | undefined {
  if (p instanceof Normal && q instanceof Normal) return ofNormals(p, q);
  if (p instanceof LogNormal && q instanceof LogNormal) return ofNormals(p.base, q.base);
  if (p instanceof HalfNormal && q instanceof HalfNormal) {
    const ratio = p.scale.div(q.scale).square();
    return ratio.sub(1).sub(ratio.log()).mul(0.5);
  }
  if (p instanceof Laplace && q instanceof Laplace) {
    const ratio = p.scale.div(q.scale);
    const far = p.loc.sub(q.loc).abs();
    return ratio
      .log()
      .neg()
      .add(far.div(q.scale))
      .add(ratio.mul(far.neg().div(p.scale).exp()))
      .sub(1);
  }
  return undefined;
}

function ofChoices(p: Distribution, q: Distribution): Tensor | undefined {
  if (p instanceof Bernoulli && q instanceof Bernoulli) {
    const ones = p.probs.mul(softplus(q.logits.neg()).sub(softplus(p.logits.neg())));
    const zeros = p.probs
      .neg()
      .add(1)
      .mul(softplus(q.logits).sub(softplus(p.logits)));
    return impossible(ones, p.probs.eq(0), q.probs.eq(0)).add(impossible(zeros, p.probs.eq(1), q.probs.eq(1)));
  }
  if (p instanceof Categorical && q instanceof Categorical) {
    const terms = p.probs.mul(p.logits.sub(q.logits));
    return impossible(terms, p.probs.eq(0), q.probs.eq(0)).sum(-1);
  }
  if (p instanceof OneHotCategorical && q instanceof OneHotCategorical) return ofChoices(p.choice, q.choice);
  return undefined;
}

/** Terms of an expectation under p: infinite where only q cannot be, nothing where p cannot be. */
function impossible(terms: Tensor, underP: Tensor, underQ: Tensor): Tensor {
  return where(underP, 0, where(underQ, Infinity, terms));
}

function ofOthers(p: Distribution, q: Distribution): Tensor | undefined {
  if (p instanceof Uniform && q instanceof Uniform) {
    const outside = q.low.gt(p.low).logicalOr(q.high.lt(p.high));
    return where(outside, Infinity, q.high.sub(q.low).div(p.high.sub(p.low)).log());
  }
  if (p instanceof Exponential && q instanceof Exponential) {
    const ratio = q.rate.div(p.rate);
    return ratio.sub(1).sub(ratio.log());
  }
  if (p instanceof Geometric && q instanceof Geometric)
    return p.entropy().neg().sub(q.probs.neg().log1p().div(p.probs)).sub(q.logits);
  if (p instanceof Independent && q instanceof Independent && p.dims === q.dims)
    return addUp(klDivergence(p.base, q.base), p.dims);
  return undefined;
}
