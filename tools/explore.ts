/** @file Runs the exhaustive explorations: `npm run explore -- [--suite session|membership|rref|autograd] [its own options]`. */
import { dispatch } from './suites.ts';

await dispatch('explore', {
  session: 'packages/rpc/explore/run.ts',
  membership: 'packages/rpc/explore/membership/run.ts',
  rref: 'packages/rref/explore/run.ts',
  autograd: 'packages/dist-autograd/explore/run.ts',
});
