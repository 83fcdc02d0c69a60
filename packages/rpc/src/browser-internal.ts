/** @file What sibling packages use of @backwire/rpc in browsers; not covered by semantic versioning. */
export * from './shared-internal.ts';
