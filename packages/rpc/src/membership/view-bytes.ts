/** @file Views and their bytes, each made once: all agents of a process read every view, and one has some 350 bytes for each member. */
import { decodeView, encodeView, type View } from '../protocol/membership.ts';
import { equalBytes } from '../base/platform.ts';

/** The bytes of views that were read or written: a change is set against exactly these. */
const written = new WeakMap<View, Uint8Array>();
/** The last that was read. */
let last: { readonly bytes: Uint8Array; readonly view: View } | undefined;

/** The same bytes each time; not to be changed. */
export function bytesOf(view: View): Uint8Array {
  let bytes = written.get(view);
  if (bytes === undefined) written.set(view, (bytes = encodeView(view)));
  return bytes;
}

/** One object for the same bytes; undefined when they are no view. */
export function viewOf(bytes: Uint8Array): View | undefined {
  if (last !== undefined && equalBytes(last.bytes, bytes)) return last.view;
  const view = decodeView(bytes);
  if (view === undefined) return undefined;
  // A copy: a store may lend its bytes.
  last = { bytes: bytes.slice(), view };
  written.set(view, last.bytes);
  return view;
}
