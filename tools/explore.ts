/** @file Runs the exhaustive explorations: `npm run explore -- [--suite session|rref|autograd] [its own options]`. */
import { dispatch } from './suites.ts';

await dispatch('explore', { session: 'packages/rpc', rref: 'packages/rref', autograd: 'packages/dist-autograd' });
