/** @file What sibling packages use of @backwire/dist-autograd; not covered by semantic versioning. */
export {};
