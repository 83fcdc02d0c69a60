/** @file What a pass sends and is answered: gradients, of which some are there, as tensors beside a payload. */
import type { Incoming } from '@backwire/rpc';
import type { Tensor } from '@backwire/tensor';
import type { Message, MessageType as Type } from '@backwire/wire';
import { decodeOutcome, encodeOutcome, type Returned } from '@backwire/wire/internal';
import type { Grads } from './engine/functions.ts';
import type { LiveContext } from './live-context.ts';
import type { Failure, Fired, Reply } from './protocol/pass-types.ts';

export type Request = Omit<Message, 'id'>;

/** What a peer made of a message. */
interface Outcome {
  readonly failure?: Failure | undefined;
  readonly back?: readonly Fired<Grads>[] | undefined;
}

/** The answer to a pass message, whenever the pass gives it. */
export function answer(
  call: Incoming,
  type: Type,
  context: () => LiveContext | undefined,
  begin: (reply: Reply) => void,
): Promise<Message> {
  return new Promise((resolve) => {
    begin((failure, back = []) => {
      const tensors: Tensor[] = [];
      const returned: Returned[] = [];
      for (const { message, grads } of back as readonly Fired<Grads>[]) {
        for (const grad of grads) if (grad !== null) tensors.push(grad);
        returned.push({ message, present: presenceOf(grads) });
      }
      if (tensors.length > 0) context()?.part(tensors);
      const payload = encodeOutcome(failure, returned);
      resolve({ type, id: call.message.id, payload, tensors });
    });
  });
}

export function outcomeOf({ payload, tensors }: Message): Outcome {
  const { failure, back } = decodeOutcome(payload, tensors.length);
  if (back.length === 0) return { failure };
  const left = tensors[Symbol.iterator]();
  return {
    back: back.map(({ message, present }) => ({ to: -1, message, tensors: 0, grads: gradientsOf(present, left) })),
  };
}

/** The outcome of several messages; those of a wave bring no gradients back. */
export function together(outcomes: readonly Outcome[]): Outcome {
  return outcomes.find(({ failure }) => failure !== undefined) ?? {};
}

/** The gradients of a message, some of which are there. */
export function gradientsOf(present: readonly boolean[], tensors: Iterator<Tensor>): Grads {
  return present.map((there) => (there ? (tensors.next().value as Tensor) : null));
}

export function presenceOf(grads: Grads): boolean[] {
  return grads.map((grad) => grad !== null);
}

export function thereOf(grads: Grads): Tensor[] {
  return grads.filter((grad) => grad !== null);
}
