/** @file What sibling packages use of @backwire/tensor; not covered by semantic versioning. */
export { ambient, runAs, runAtRoot, runClean, runWith, type Ambient, type OpObserver } from './ambient.ts';
