/** @file What sibling packages use of @backwire/launch; not covered by semantic versioning. */
export { commandProcess } from './command-process.ts';
