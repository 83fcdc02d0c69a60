/** @file What sibling packages use of @backwire/rref; not covered by semantic versioning. */
export { RRefHandle, isHandle } from './handle.ts';
export { EXTENSION_NAME } from './names.ts';
export { RRefSession } from './session.ts';
export { sessionOf } from './remote-methods.ts';
export { typeNameOf } from './referent.ts';
