/** @file The public surface of @backwire/profiler. */
export {};
