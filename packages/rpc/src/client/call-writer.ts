/** @file Puts outgoing calls into frames: arguments encoded in place, names interned, header entries added. */
import type { Tensor } from '@backwire/tensor';
import { ambient } from '@backwire/tensor/internal';
import {
  FrameFlag,
  FrameKind,
  MessageType,
  planTensors,
  type HeaderEntry,
  type TensorPlan,
} from '@backwire/wire/internal';
import { ARRIVE } from '../protocol/meetings.ts';
import type { Environment } from '../base/environment.ts';
import { NOTHING_INSIDE, WriteContext } from '../extensions/value-context.ts';
import { RpcError } from '../base/errors.ts';
import type { RpcMessage } from '../extensions/extension.ts';
import { ITEMS_ENTRY, KEY_ENTRY } from '../session/header-entries.ts';
import { MAX_IDEMPOTENCY_KEY_LENGTH } from '../base/limits.ts';
import { checkOrdered, type CallOptions } from '../base/options.ts';
import type { Peer } from '../session/peer.ts';
import type { Draft } from '../session/draft.ts';
import type { PendingCall } from './pending-call.ts';

const encoder = new TextEncoder();

/** A message and its tensors, ready to be written. */
interface KeptMessage {
  readonly message: RpcMessage;
  readonly plan: TensorPlan | undefined;
}

export class CallWriter {
  /** Calls written; meetings do not count, for they are how quiet is measured. */
  sent = 0;
  private readonly environment: Environment;

  constructor(environment: Environment) {
    this.environment = environment;
  }

  /** Writes a call straight from its arguments. @throws what cannot travel; nothing was sent then. */
  writeCall(
    call: PendingCall,
    flags: number,
    type: number,
    name: string,
    args: readonly unknown[],
    options: CallOptions | undefined,
  ): void {
    const { sender, worker } = call.peer;
    const draft = sender.begin(FrameKind.CALL, true);
    let plan: TensorPlan | undefined;
    try {
      let header: HeaderEntry[] = NO_ENTRIES;
      if (args.length === 0) {
        // Nothing in it looks at the context.
        this.environment.codec.write(draft.out, args, NO_TENSORS, NOTHING_INSIDE);
      } else {
        // Known to the call before anything is encoded: what was drawn for a call that fails here has to be taken back.
        const context = new WriteContext(worker);
        call.header = header = context.header;
        const tensors: Tensor[] = [];
        this.environment.codec.write(draft.out, args, tensors, context);
        if (tensors.length > 0)
          plan = planTensors(tensors, { mapDevice: this.environment.deviceMaps.to(worker.name, 'Request') });
      }
      call.header = this.ownEntries(call, header, options);
      draft.flags = flagsOf(flags, options);
      draft.messageType = type;
      draft.plan = plan;
      this.finish(call, draft, name);
    } catch (error) {
      plan?.release();
      draft.abort();
      throw error;
    }
  }

  /** A call says the function by its number; the first one says the name, too. */
  private finish(call: PendingCall, draft: Draft, name: string): void {
    const { peer } = call;
    const { interned: names } = peer;
    let fn = names.get(name);
    // A number counts as known once its name went out under a sequence number; what waits may yet be withdrawn.
    const known = fn !== undefined && fn > 0;
    if (fn === undefined) names.set(name, (fn = -(names.size + 1)));
    draft.fn = Math.abs(fn);
    draft.name = known ? undefined : name;
    this.end(call, draft);
    if (!known && call.seq !== 0) names.set(name, Math.abs(fn));
  }

  /** Writes a message that is encoded already. */
  writeMessage(call: PendingCall, flags: number, message: RpcMessage, options: CallOptions | undefined): void {
    this.writeKept(call, flags, { message, plan: this.plan(call.peer, message) }, options);
  }

  /** A message that nothing can change any more, to be written later or its plan released. */
  keep(peer: Peer, message: RpcMessage): KeptMessage {
    const plan = this.plan(peer, message);
    plan?.secure();
    const { type, id, payload, tensors, header } = message;
    return {
      message: { type, id, payload: payload.slice(), tensors, ...(header === undefined ? {} : { header }) },
      plan,
    };
  }

  writeKept(call: PendingCall, flags: number, kept: KeptMessage, options: CallOptions | undefined): void {
    const { message, plan } = kept;
    let draft: Draft | undefined;
    try {
      call.header = this.ownEntries(call, message.header ?? NO_ENTRIES, options);
      draft = call.peer.sender.begin(FrameKind.CALL, true);
      draft.out.raw(message.payload);
      draft.flags = flagsOf(flags, options);
      draft.messageType = message.type;
      draft.plan = plan;
      this.end(call, draft);
    } catch (error) {
      plan?.release();
      draft?.abort();
      throw error;
    }
  }

  private plan({ worker }: Peer, { tensors, type }: RpcMessage): TensorPlan | undefined {
    if (tensors.length === 0) return undefined;
    const { deviceMaps } = this.environment;
    const gradients = type === MessageType.BACKWARD_AUTOGRAD_REQ;
    const mapDevice = gradients ? deviceMaps.gradientsTo(worker.name) : deviceMaps.to(worker.name, 'Request');
    return planTensors(tensors, { mapDevice });
  }

  private end(call: PendingCall, draft: Draft): void {
    const { deadline, header } = call;
    // One look at the clock a call, when it was made; what was held back since has to look again.
    const now = call.heldBack ? this.environment.now() : call.startedAt;
    const remainingMs = deadline === Infinity ? -1 : Math.max(1, deadline - now);
    if (call.label.name !== ARRIVE) this.sent++;
    const keyed = header !== undefined && header.some(({ extension }) => extension === KEY_ENTRY);
    if (keyed) draft.flags |= FrameFlag.IDEMPOTENT;
    call.hasBodies = draft.plan !== undefined;
    draft.callId = call.id;
    draft.remainingMs = remainingMs;
    draft.ticket = call;
    draft.table = header;
    call.peer.sender.end(draft);
  }

  private ownEntries(
    call: PendingCall,
    before: readonly HeaderEntry[],
    options: CallOptions | undefined,
  ): readonly HeaderEntry[] | undefined {
    const key = options?.idempotencyKey;
    const { items } = call.form;
    const header = items === undefined ? before : [...before, { extension: ITEMS_ENTRY, data: u32(items) }];
    if (key === undefined) return header.length === 0 ? undefined : header;
    if (
      typeof key !== 'string' ||
      key.length === 0 ||
      key.length > MAX_IDEMPOTENCY_KEY_LENGTH ||
      /\p{Surrogate}/u.test(key)
    ) {
      throw new RpcError(
        'invalid-argument',
        `an idempotency key is a text of 1 to ${MAX_IDEMPOTENCY_KEY_LENGTH} characters`,
      );
    }
    if (call.mode === 'stream')
      throw new RpcError('invalid-argument', 'a stream cannot have an idempotency key: its items are sent once');
    if (ambient().contextId !== undefined) {
      throw new RpcError(
        'failed-precondition',
        'a call in an autograd context cannot have an idempotency key: its graph is made once',
      );
    }
    return [...header, { extension: KEY_ENTRY, data: encoder.encode(key) }];
  }
}

function flagsOf(flags: number, options: CallOptions | undefined): number {
  if (options === undefined) return flags;
  checkOrdered(options.ordered);
  return options.ordered === false ? flags | FrameFlag.UNORDERED : flags;
}

function u32(value: number): Uint8Array {
  const data = new Uint8Array(4);
  new DataView(data.buffer).setUint32(0, value, true);
  return data;
}

/** Shared by calls without arguments, which write into neither. */
const NO_ENTRIES: HeaderEntry[] = [];
const NO_TENSORS: Tensor[] = [];
