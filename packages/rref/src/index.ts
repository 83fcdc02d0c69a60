/** @file The public surface of @backwire/rref. */
export { createRRef, isRRef, listRRefs, remote, rrefDebugInfo, rrefs, type RRefOptions } from './api.ts';
export type { RemoteProxy, RRef, RRefId, RRefProxy } from './types.ts';
