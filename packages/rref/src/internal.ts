/** @file What sibling packages use of @backwire/rref; not covered by semantic versioning. */
export { RRefHandle } from './client/handle.ts';
export { RRefSession, sessionOf } from './extension.ts';
export { isHandle } from './handle-brand.ts';
export { EXTENSION_NAME } from './names.ts';
export { typeNameOf } from './owner/referent.ts';
