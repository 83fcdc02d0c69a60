/** @file Runs the simulated suites: `npm run sim -- [--suite session|membership|rref|autograd] [--seeds N] [--first S] [--seed S] [--seconds T]`. */
import { dispatch } from './suites.ts';

await dispatch('sim', {
  session: 'packages/rpc/sim/run.ts',
  membership: 'packages/rpc/sim/membership/run.ts',
  rref: 'packages/rref/sim/run.ts',
  autograd: 'packages/dist-autograd/sim/run.ts',
});
