/** @file What sibling packages use of @backwire/wire; not covered by semantic versioning. */
export {};
