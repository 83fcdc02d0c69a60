/** @file What sibling packages use of @backwire/profiler; not covered by semantic versioning. */
export {};
