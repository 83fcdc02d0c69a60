/** @file What the workers of the soak with faults have each other do. */
import { rpcFunction } from '@backwire/rpc';
import type { Tensor } from '@backwire/tensor';
import { Ledger } from './ledger.ts';

/** What others have had done here. */
export const ledger = new Ledger();

export const count = rpcFunction('soak/count', (life: string, n: number) => ledger.count(life, n));
export const ran = rpcFunction('soak/ran', (life: string, n: number) => ledger.ran(life, n));
export const nameOf = rpcFunction('soak/name', () => `w${process.env['SOAK_RANK']}`);
export const scale = rpcFunction('soak/scale', (x: Tensor, by: number) => x.mul(by), { scope: true });
