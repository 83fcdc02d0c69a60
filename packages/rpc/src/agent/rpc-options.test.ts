/** @file What of a worker's options may be told to its peers. */
import { expect, it } from 'vitest';
import { checkAdvertised } from './rpc-options.ts';

it.each([undefined, 'gpu-3', 'a.example', '10.0.0.1', 'fe80::1', 'fe80::1%eth0.100', 'fe80::1%br-lan', 'wss://a.example/backwire'])(
  'the address %s may be advertised',
  (address) => expect(checkAdvertised(address)).toBeUndefined(),
); // prettier-ignore
