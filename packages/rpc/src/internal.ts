/** @file What sibling packages use of @backwire/rpc; not covered by semantic versioning. */
export * from './shared-internal.ts';
export { ByteReader, type ReadProgram } from './stores/byte-reader.ts';
export { serveStore, type ServeStoreOptions, type StoreServer } from './stores/embedded-server.ts';
export { addressOf, doorForBrowsers, openStore } from './stores/open.ts';
export { newId, newSecret, newToken } from './base/ids.ts';
export { torchClient, type TorchClient } from './stores/torch-client.ts';
export { tcpTransport } from './transports/tcp.ts';
export type { Connection, Listener, Transport } from './transports/transport.ts';
export { findKeys } from './security/secret.ts';
export { resolveSecurity } from './security/policy.ts';
export { Inspector, type GroupLook, type InspectorOptions, type WorkerLook } from './inspection/inspector.ts';
export { Session } from './protocol/session.ts';
export { joinAddress, splitAddress, withoutPassword } from './stores/address.ts';
export { announceGroup, runningGroups, userFolder, type RunningGroup } from './stores/registry.ts';
export { removeFoldersOf } from './transports/socket-folders.ts';
