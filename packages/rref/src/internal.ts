/** @file What sibling packages use of @backwire/rref; not covered by semantic versioning. */
export { RRefHandle, isHandle } from './client/handle.ts';
export { EXTENSION_NAME } from './names.ts';
export { RRefSession } from './extension.ts';
export { sessionOf } from './owner/remote-methods.ts';
export { typeNameOf } from './owner/referent.ts';
