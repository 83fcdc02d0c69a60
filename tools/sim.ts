/** @file Runs the simulated suites: `npm run sim -- --suite session|rref|autograd [--seeds N] [--first S] [--seed S] [--seconds T]`. */
import { dispatch } from './suites.ts';

await dispatch('sim', { session: 'packages/rpc', rref: 'packages/rref', autograd: 'packages/dist-autograd' });
