/** @file What sibling packages use of @backwire/rpc; not covered by semantic versioning. */
export {};
