import { manualSeed, rand, rpcFunction } from 'backwire';

/** How many of `n` random points in a square lie in the circle in it. The same seed gives the same points. */
export const count = rpcFunction(
  'pi/count',
  (seed: number, n: number) => {
    manualSeed(seed);
    return rand([n, 2]).square().sum(1).lt(1).sum().item();
  },
  { scope: true },
);
