/** @file Puts outgoing calls into frames: arguments encoded in place, names interned, header entries added. */
import type { Tensor } from '@backwire/tensor';
import { ambient } from '@backwire/tensor/internal';
import {
  FrameFlag,
  FrameKind,
  MessageType,
  planTensors,
  type FrameWriter,
  type HeaderEntry,
  type TensorPlan,
} from '@backwire/wire/internal';
import { ARRIVE } from '../collectives.ts';
import type { Core } from '../base/environment.ts';
import { NOTHING_INSIDE, WriteContext } from '../extensions/value-context.ts';
import { RpcError } from '../base/errors.ts';
import type { RpcMessage } from '../extensions/extension.ts';
import { ITEMS_ENTRY, KEY_ENTRY } from '../session/receiver.ts';
import { MAX_IDEMPOTENCY_KEY_LENGTH } from '../base/limits.ts';
import type { CallOptions } from '../base/options.ts';
import type { Peer } from '../session/peer.ts';
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
  private readonly environment: Core;

  constructor(environment: Core) {
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
    const writer = sender.begin(true);
    let plan: TensorPlan | undefined;
    try {
      let header: HeaderEntry[] = NO_ENTRIES;
      if (args.length === 0) {
        // Nothing in it looks at the context.
        this.environment.codec.write(writer.out, args, NO_TENSORS, NOTHING_INSIDE);
      } else {
        // Known to the call before anything is encoded: what was drawn for a call that fails here has to be taken back.
        const context = new WriteContext(worker);
        call.header = header = context.header;
        const tensors: Tensor[] = [];
        this.environment.codec.write(writer.out, args, tensors, context);
        if (tensors.length > 0)
          plan = planTensors(tensors, { mapDevice: this.environment.deviceMaps.to(worker.name, 'Request') });
      }
      call.header = this.ownEntries(call, header, options);
      this.finish(call, writer, flags, type, name, plan);
    } catch (error) {
      plan?.release();
      if (writer.open) writer.abort();
      throw error;
    }
  }

  private finish(
    call: PendingCall,
    writer: FrameWriter,
    flags: number,
    type: number,
    name: string,
    plan: TensorPlan | undefined,
  ): void {
    const { peer } = call;
    // Meetings are how quiet is measured: they do not count.
    if (name === ARRIVE) this.sent--;
    const { interned: names } = peer;
    let fn = names.get(name);
    // A number counts as known once its name went out under a sequence number; what waits may yet be withdrawn.
    const known = fn !== undefined && fn > 0;
    if (fn === undefined) names.set(name, (fn = -(names.size + 1)));
    this.end(call, writer, flags, type, Math.abs(fn), plan, known ? undefined : name);
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
    let writer: FrameWriter | undefined;
    try {
      call.header = this.ownEntries(call, message.header ?? NO_ENTRIES, options);
      writer = call.peer.sender.begin(true);
      writer.out.raw(message.payload);
      this.end(call, writer, flags, message.type, 0, plan, undefined);
    } catch (error) {
      plan?.release();
      if (writer?.open === true) writer.abort();
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

  private end(
    call: PendingCall,
    writer: FrameWriter,
    flags: number,
    type: number,
    fn: number,
    plan: TensorPlan | undefined,
    name: string | undefined,
  ): void {
    const { deadline, header } = call;
    // One look at the clock a call, when it was made; what was held back since has to look again.
    const now = call.heldBack ? this.environment.now() : call.startedAt;
    const remainingMs = deadline === Infinity ? -1 : Math.max(1, deadline - now);
    this.sent++;
    const keyed = header !== undefined && header.some(({ extension }) => extension === KEY_ENTRY);
    const bits = keyed ? flags | FrameFlag.IDEMPOTENT : flags;
    call.hasBodies = plan !== undefined;
    call.peer.sender.end(writer, FrameKind.CALL, bits, type, call.id, fn, remainingMs, true, call, name, header, plan);
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

function u32(value: number): Uint8Array {
  const data = new Uint8Array(4);
  new DataView(data.buffer).setUint32(0, value, true);
  return data;
}

/** Shared by calls without arguments, which write into neither. */
const NO_ENTRIES: HeaderEntry[] = [];
const NO_TENSORS: Tensor[] = [];
