/** @file einsum: sums of products, written as labels of dimensions; computed as batched matrix products. */
import { ShapeError } from '../errors.ts';
import { sweep } from '../scope.ts';
import { sizeOf } from '../shape.ts';
import type { Tensor } from '../tensor.ts';
import { named } from '../named.ts';
import { bmm } from './matmul.ts';
import { ALL, check, same } from './takes.ts';

/** Stands for the dimensions of '...', counted from the last. */
const dots = (i: number): string => `.${i}`;

interface Term {
  readonly labels: readonly string[];
  readonly tensor: Tensor;
}

function labelsOf(text: string): string[] {
  const out: string[] = [];
  for (let i = 0; i < text.length; i++) {
    const c = text[i] as string;
    if (c === ' ') continue;
    if (/[a-zA-Z]/.test(c)) out.push(c);
    else if (text.startsWith('...', i) && !out.includes('...')) {
      out.push('...');
      i += 2;
    } else
      throw new ShapeError(
        `einsum(): invalid subscript given at index ${i} in the equation string, subscripts must be in [a-zA-Z]`,
      );
  }
  return out;
}

/** A term with '...' written out, and labels that occur twice replaced by the diagonal. */
function termOf(text: string, tensor: Tensor, at: number): Term {
  const written = labelsOf(text);
  const free = tensor.rank - written.filter((l) => l !== '...').length;
  if (free < 0 || (free > 0 && !written.includes('...'))) {
    throw new ShapeError(
      `einsum(): the number of subscripts in the equation (${written.length}) does not match the number of dimensions (${tensor.rank}) for operand ${at}`,
    );
  }
  const labels = written.flatMap((l) =>
    l === '...' ? Array.from({ length: free }, (_, i) => dots(free - 1 - i)) : [l],
  );
  return diagonalised({ labels, tensor });
}

function diagonalised(term: Term): Term {
  const twice = term.labels.find((l, i) => term.labels.indexOf(l) !== i);
  if (twice === undefined) return term;
  const [first, second] = term.labels.flatMap((l, i) => (l === twice ? [i] : [])) as [number, number];
  const { tensor } = term;
  if (tensor.shape[first] !== tensor.shape[second])
    throw new ShapeError(
      `einsum(): subscript ${twice} is repeated for an operand but the sizes don't match, ${tensor.shape[second] as number} != ${tensor.shape[first] as number}`,
    );
  const others = term.labels.map((_, i) => i).filter((i) => i !== first && i !== second);
  const diagonal = tensor.permute([...others, first, second]).diagonal();
  return diagonalised({ labels: [...others.map((i) => term.labels[i] as string), twice], tensor: diagonal });
}

/** Sizes by label; those of 1 broadcast. */
function sizesOf(terms: readonly Term[]): Map<string, number> {
  const sizes = new Map<string, number>();
  for (const [at, { labels, tensor }] of terms.entries()) {
    for (const [d, label] of labels.entries()) {
      const n = tensor.shape[d] as number;
      const known = sizes.get(label) ?? 1;
      if (known !== 1 && n !== 1 && n !== known)
        throw new ShapeError(
          `einsum(): subscript ${label} has size ${n} for operand ${at} which does not broadcast with previously seen size ${known}`,
        );
      sizes.set(label, known === 1 ? n : known);
    }
  }
  return sizes;
}

/** The dimensions of `term` in the given order, labels that it has not as ones. */
function arranged({ labels, tensor }: Term, order: readonly string[]): Tensor {
  const own = order.filter((l) => labels.includes(l));
  const turned = tensor.permute(own.map((l) => labels.indexOf(l)));
  let d = 0;
  return turned.reshape(order.map((l) => (labels.includes(l) ? (turned.shape[d++] as number) : 1)));
}

/** Sums over labels that no other term and not the result have. */
function summed(term: Term, kept: ReadonlySet<string>): Term {
  const dims = term.labels.flatMap((l, d) => (kept.has(l) ? [] : [d]));
  if (dims.length === 0) return term;
  return { labels: term.labels.filter((l) => kept.has(l)), tensor: term.tensor.sum(dims) };
}

/** The product of two terms, summed over labels that `kept` has not. */
function contracted(a: Term, b: Term, kept: ReadonlySet<string>): Term {
  const sizeIn = (t: Term, l: string): number => t.tensor.shape[t.labels.indexOf(l)] ?? 1;
  const all = [...new Set([...a.labels, ...b.labels])];
  // A label of which one side has but one element is summed, or kept, on the other side alone.
  const [left, right] = [a, b].map((own, i) => {
    const other = i === 0 ? b : a;
    const gone = own.labels.filter(
      (l) => !kept.has(l) && sizeIn(own, l) !== 1 && sizeIn(other, l) === 1 && !other.labels.includes(l),
    );
    return gone.length === 0 ? own : summed(own, new Set(own.labels.filter((l) => !gone.includes(l))));
  }) as [Term, Term];
  const both = all.filter(
    (l) => sizeIn(left, l) !== 1 && sizeIn(right, l) !== 1 && left.labels.includes(l) && right.labels.includes(l),
  );
  const shared = both.filter((l) => kept.has(l));
  const inner = both.filter((l) => !kept.has(l));
  const leftOnly = all.filter((l) => !both.includes(l) && left.labels.includes(l) && sizeIn(left, l) !== 1);
  const rightOnly = all.filter((l) => !both.includes(l) && right.labels.includes(l) && sizeIn(right, l) !== 1);
  const ones = all.filter((l) => !both.includes(l) && !leftOnly.includes(l) && !rightOnly.includes(l));
  const size = (t: Term, labels: readonly string[]): number => sizeOf(labels.map((l) => sizeIn(t, l)));
  const [batch, m, k, n] = [size(left, shared), size(left, leftOnly), size(left, inner), size(right, rightOnly)];
  const x = arranged(squeezed(left), [...shared, ...leftOnly, ...inner]).reshape([batch, m, k]);
  const y = arranged(squeezed(right), [...shared, ...inner, ...rightOnly]).reshape([batch, k, n]);
  // Truths are multiplied, and counted, but their products have no sums, as in PyTorch; what was counted is int64.
  const apart = inner.length === 0 && (x.dtype === 'bool' || x.dtype !== y.dtype);
  const product = apart ? x.mul(y) : bmm(x, y);
  // A sum of one element would count small integers, too.
  const lone = ones.filter((l) => kept.has(l));
  const labels = [...shared, ...leftOnly, ...rightOnly, ...lone];
  const shape = [
    ...shared.map((l) => sizeIn(left, l)),
    ...leftOnly.map((l) => sizeIn(left, l)),
    ...rightOnly.map((l) => sizeIn(right, l)),
    ...lone.map(() => 1),
  ];
  return summed({ labels, tensor: product.reshape(shape) }, kept);
}

/** Without dimensions of one. */
function squeezed({ labels, tensor }: Term): Term {
  const dims = labels.map((_, d) => d).filter((d) => tensor.shape[d] !== 1);
  return {
    labels: dims.map((d) => labels[d] as string),
    tensor: tensor.reshape(dims.map((d) => tensor.shape[d] as number)),
  };
}

/** What the result has where the equation does not say: '...' and the labels that occur once, in alphabetical order. */
function impliedOutput(inputs: readonly string[], terms: readonly Term[]): string[] {
  const rank = Math.max(0, ...terms.map(({ labels }) => labels.filter((l) => l.startsWith('.')).length));
  const letters = inputs.flatMap(labelsOf).filter((l) => l !== '...');
  const once = letters.filter((l) => letters.indexOf(l) === letters.lastIndexOf(l)).sort();
  return [...Array.from({ length: rank }, (_, i) => dots(rank - 1 - i)), ...once];
}

function outputOf(text: string, terms: readonly Term[], sizes: ReadonlyMap<string, number>): string[] {
  const rank = Math.max(0, ...terms.map(({ labels }) => labels.filter((l) => l.startsWith('.')).length));
  const labels = labelsOf(text).flatMap((l) =>
    l === '...' ? Array.from({ length: rank }, (_, i) => dots(rank - 1 - i)) : [l],
  );
  for (const [i, l] of labels.entries()) {
    if (labels.indexOf(l) !== i)
      throw new ShapeError(`einsum(): output subscript ${l} appears more than once in the output`);
    if (!sizes.has(l))
      throw new ShapeError(`einsum(): output subscript ${l} does not appear in the equation for any input operand`);
  }
  return labels;
}

/**
 * The sum of products that `equation` writes: labels of each operand's dimensions, and after '->' those of the result; the others are
 * summed over. 'bij,bjk->bik' is a batched product, 'ii' a trace; '...' stands for dimensions that broadcast.
 * @param equation such as 'ij,jk->ik'
 * @param tensors one for each part of it
 * @throws ShapeError when sizes of a label differ or the equation does not fit.
 * @example
 * ```ts
 * const a = ones([2, 3]);
 * console.log(einsum('ij,kj->ik', a, ones([4, 3])).shape, einsum('ij->', a).item()); // [ 2, 4 ] 6
 * ```
 */
export const einsum = named('aten::einsum', (equation: string, ...tensors: Tensor[]): Tensor => {
  if (tensors.length === 0) throw new ShapeError('einsum(): must provide at least one operand');
  check('einsum', same(ALL), tensors);
  const [left, right, ...more] = equation.split('->') as [string, string | undefined];
  if (more.length > 0) throw new ShapeError(`einsum(): more than one '->' in '${equation}'`);
  const inputs = left.split(',');
  if (inputs.length !== tensors.length)
    throw new ShapeError(
      `einsum(): ${inputs.length > tensors.length ? 'fewer' : 'more'} operands were provided than specified in the equation`,
    );
  return sweep(() => {
    const terms = tensors.map((t, i) => termOf(inputs[i] as string, t, i));
    const sizes = sizesOf(terms);
    const output = right === undefined ? impliedOutput(inputs, terms) : outputOf(right, terms, sizes);
    let term = terms[0] as Term;
    terms.slice(1).forEach((next, i) => {
      const later = terms.slice(i + 2).flatMap(({ labels }) => labels);
      term = contracted(term, next, new Set([...output, ...later]));
    });
    const last = summed(term, new Set(output));
    const out = arranged(last, output);
    const shape = output.map((l) => sizes.get(l) as number);
    return out.expand(shape).alias();
  });
});
