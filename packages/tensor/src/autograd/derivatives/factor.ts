/** @file Derivatives of factorisations, whose parts are packed one after the other. Formulas follow PyTorch's. */
import { eye } from '../../creation.ts';
import { unpacked, type FactorAttrs } from '../../ops/factor.ts';
import { concat } from '../../ops/join.ts';
import { inverse, solve } from '../../ops/linalg.ts';
import { where } from '../../ops/where.ts';
import type { Tensor } from '../../tensor.ts';
import type { Derivative } from '../op-node.ts';
import { rule } from './rule.ts';

const turned = (t: Tensor): Tensor => t.transpose(-1, -2);

/** 1 / (b_j - b_i) off the diagonal, 0 on it. */
function gaps(values: Tensor): Tensor {
  const n = values.shape.at(-1) as number;
  const gap = values.unsqueeze(-2).sub(values.unsqueeze(-1));
  const diagonal = eye(n).ne(0);
  return where(diagonal, 0, where(diagonal, 1, gap).reciprocal());
}

const inSquare = (t: Tensor): Tensor => t.unsqueeze(-2);

export const factor: Readonly<Record<string, Derivative>> = {
  eigh: rule(['output'], (grad, saved, { n }: FactorAttrs) => {
    const [values, v] = unpacked(saved.output(), [[n], [n, n]]) as [Tensor, Tensor];
    const [gl, gv] = unpacked(grad, [[n], [n, n]]) as [Tensor, Tensor];
    const inner = turned(v).matmul(gv).mul(gaps(values)).add(gl.diagEmbed());
    const full = v.matmul(inner).matmul(turned(v));
    // The matrix stands for a symmetric one, as PyTorch takes it.
    return [full.add(turned(full)).mul(0.5)];
  }),
  // Townsend, "Differentiating the singular value decomposition" (2016).
  svd: rule(['output'], (grad, saved, { m, n }: FactorAttrs) => {
    const k = Math.min(m, n);
    const shapes = [[m, k], [k], [k, n]];
    const [u, s, vh] = unpacked(saved.output(), shapes) as [Tensor, Tensor, Tensor];
    const [gu, gs, gvh] = unpacked(grad, shapes) as [Tensor, Tensor, Tensor];
    const f = gaps(s.square());
    const skew = (t: Tensor): Tensor => t.sub(turned(t));
    const left = skew(turned(u).matmul(gu)).mul(f).mul(inSquare(s));
    const right = skew(vh.matmul(turned(gvh)))
      .mul(f)
      .mul(s.unsqueeze(-1));
    let out = u.matmul(left.add(right).add(gs.diagEmbed())).matmul(vh);
    if (m > k) {
      const beside = gu.sub(u.matmul(turned(u).matmul(gu))).div(inSquare(s));
      out = out.add(beside.matmul(vh));
    }
    if (n > k) {
      const beside = gvh.sub(gvh.matmul(turned(vh)).matmul(vh)).div(s.unsqueeze(-1));
      out = out.add(u.matmul(beside));
    }
    return [out];
  }),
  qr: rule(['output'], (grad, saved, { m, n }: FactorAttrs) => {
    const k = Math.min(m, n);
    const shapes = [
      [m, k],
      [k, n],
    ];
    const [q, r] = unpacked(saved.output(), shapes) as [Tensor, Tensor];
    const [gq, gr] = unpacked(grad, shapes) as [Tensor, Tensor];
    const tall = (q_: Tensor, r_: Tensor, gq_: Tensor, gr_: Tensor): Tensor => {
      // Liao et al., "Differentiable programming tensor networks" (2019), equation 5.
      const mixed = r_.matmul(turned(gr_)).sub(turned(gq_).matmul(q_));
      const sym = mixed.tril().add(turned(mixed.tril(-1)));
      return turned(solve(r_, turned(gq_.add(q_.matmul(sym)))));
    };
    if (m >= n) return [tall(q, r, gq, gr)];
    // Wide: the square part is factored, and the rest is Qᵀ times its columns.
    const [first, rest] = [r.narrow(-1, 0, m), r.narrow(-1, m, n - m)];
    const [gFirst, gRest] = [gr.narrow(-1, 0, m), gr.narrow(-1, m, n - m)];
    const columns = q.matmul(rest);
    const own = tall(q, first, gq.add(columns.matmul(turned(gRest))), gFirst);
    return [concat([own, q.matmul(gRest)], -1)];
  }),
  logAbsDet: rule([0], (grad, saved) => [
    grad
      .unsqueeze(-1)
      .unsqueeze(-1)
      .mul(turned(inverse(saved.input(0)))),
  ]),
};
