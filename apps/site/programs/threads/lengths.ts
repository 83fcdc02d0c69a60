import { rpcFunction, type Tensor } from 'backwire';

/** The lengths of `count` rows of x [n, m], from row `first` on. */
export const lengths = rpcFunction('threads/lengths', (x: Tensor, first: number, count: number) =>
  x.narrow(0, first, count).square().sum(1).sqrt(),
);
