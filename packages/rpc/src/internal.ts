/** @file What sibling packages use of @backwire/rpc; not covered by semantic versioning. */
export { InvariantError, type Executed, type RpcErrorFields } from './errors.ts';
export type { ExtensionHost, ExtensionInternals, ExtensionValue, Member } from './extension.ts';
export { checkTimeoutMs } from './options.ts';
