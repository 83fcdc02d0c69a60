/** @file What tells the arguments of one call from those of another, in 32 bytes: calls with an idempotency key are compared by it. */
import type { Tensor } from '@backwire/tensor';
import { readBytes } from '@backwire/tensor/internal';
import { ByteWriter } from '@backwire/wire/internal';
import type { Environment } from '../base/environment.ts';
import type { Unclaimed } from '../extensions/value-context.ts';
import type { Peer } from '../session/peer.ts';
import { sha256 } from '../security/digest.ts';
import { toHex } from '../security/keys.ts';
import type { WorkerInfo } from '../base/worker-info.ts';

const encoder = new TextEncoder();

/**
 * A digest of arguments as they came: `bytes`, a value, and the tensors in it, by what they show. References are sent under a new number
 * each time; where there are any (`unclaimed`), what they refer to counts instead.
 */
export function digestOf(
  environment: Environment,
  bytes: Uint8Array,
  tensors: readonly Tensor[],
  { args, unclaimed }: { readonly args: readonly unknown[]; readonly unclaimed: Unclaimed | undefined },
  { worker }: Peer,
): string {
  const value = unclaimed === undefined ? bytes : (lasting(environment, args, worker) ?? bytes);
  const parts = tensors.flatMap(elements);
  const kinds = tensors.map(({ dtype, shape, layout }) => [dtype, layout, shape]);
  // Said before them, so that no bytes can move from one part to the next.
  const head = JSON.stringify([kinds, value.length, parts.map((part) => part.length)]);
  return toHex(sha256(encoder.encode(head), value, ...parts));
}

/** The elements of a tensor in order; of a sparse one its indices and values. */
function elements(tensor: Tensor): Uint8Array[] {
  const { sparse } = tensor;
  return sparse === undefined ? [readBytes(tensor)] : [readBytes(sparse.indices), readBytes(sparse.values)];
}

/** Arguments written anew by what lasts of them; undefined when something in them is rebuilt as what cannot travel again. */
function lasting(environment: Environment, args: readonly unknown[], worker: WorkerInfo): Uint8Array | undefined {
  const out = new ByteWriter();
  try {
    environment.lasting.write(out, args, [], { worker, header: [], pending: [], unclaimed: [] });
    return out.written();
  } catch {
    return undefined; // then a repeated call may count as another one, and is refused
  }
}
