/** @file Only tests live here; the contract programs are in `contract/`. */
export {};
