/** @file What sibling packages and tests use of @backwire/torch; not covered by semantic versioning. */
export * from './pickle/python-writer.ts';
export * from './pickle/script-writer.ts';
export * from './pickle/script-reader.ts';
export * from './pickle/python-reader.ts';
export * from './pipe/packets.ts';
