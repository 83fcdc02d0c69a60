/** @file What sibling packages use of @backwire/rref; not covered by semantic versioning. */
export {};
