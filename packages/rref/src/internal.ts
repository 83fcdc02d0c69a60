/** @file What sibling packages use of @backwire/rref; not covered by semantic versioning. */
export { BaseHandle, type HandleAgent, type HandleTarget } from './client/base-handle.ts';
export { localValueNow } from './owner/local-value.ts';
export { createAnswer, createProxy, type Answer } from './client/proxy.ts';
export { TypeQuestion } from './client/type-question.ts';
export { asElsewhere, errorOf, failureOf, isElsewhere } from './failure.ts';
export { OwnedValue } from './owner/owned-value.ts';
export { StandIn, elsewhere, makesStandIns, type Within } from './owner/stand-in.ts';
export { callMethod, secondHandle, typeNameOf } from './owner/referent.ts';
export { formatId, type GlobalId } from './protocol/ids.ts';
export type { Carried, Control, Failure } from './protocol/messages.ts';
export type { OwnerEntry } from './protocol/owner-table.ts';
export type { UserFork } from './protocol/user-table.ts';
export { ProtocolWorker } from './protocol/worker.ts';
export { rrefsToSend, standInOf } from './stand-ins.ts';
export { provideRRefs, type RRefSpace } from './space.ts';
