/** @file A call as a message that is encoded only when an extension looks inside. */
import type { Tensor } from '@backwire/tensor';
import type { Message } from '@backwire/wire';
import { ByteWriter, type HeaderEntry } from '@backwire/wire/internal';
import type { Core, ValueContext } from './core.ts';
import type { RpcMessage } from './extension.ts';
import type { WorkerInfo } from './worker-info.ts';

/** `payload` is the value `[name, args]`. Most calls meet extensions that have nothing to do with them: those are never encoded here. */
export class LazyCall implements Message {
  readonly type: number;
  readonly id = 0n;
  private readonly core: Core;
  private readonly to: WorkerInfo;
  private readonly name: string;
  private readonly args: readonly unknown[];
  private message: RpcMessage | undefined;

  constructor(core: Core, to: WorkerInfo, type: number, name: string, args: readonly unknown[]) {
    this.core = core;
    this.to = to;
    this.type = type;
    this.name = name;
    this.args = args;
  }

  /** Whether somebody looked: what was encoded then has to be what is sent. */
  get encoded(): boolean {
    return this.message !== undefined;
  }
  get payload(): Uint8Array {
    return this.encode().payload;
  }
  get tensors(): readonly Tensor[] {
    return this.encode().tensors;
  }
  get header(): readonly HeaderEntry[] | undefined {
    return this.encode().header;
  }

  private encode(): RpcMessage {
    return (this.message ??= encodeCallMessage(this.core, this.to, this.type, this.name, this.args));
  }
}

/** The message of a call, whole. @throws TypeError for an argument that cannot travel. */
export function encodeCallMessage(
  core: Core,
  to: WorkerInfo,
  type: number,
  name: string,
  args: readonly unknown[],
): RpcMessage {
  const { bytes, tensors, header } = encodeFor(core, to, [name, args]);
  return { type, id: 0n, payload: bytes, tensors, header };
}

/** A value for `to`, with what goes beside it. */
export function encodeFor(
  core: Core,
  to: WorkerInfo,
  value: unknown,
): { bytes: Uint8Array; tensors: Tensor[]; header: readonly HeaderEntry[] } {
  const out = new ByteWriter();
  const tensors: Tensor[] = [];
  const context: ValueContext = { worker: to, header: [], pending: [] };
  core.codec.write(out, value, tensors, context);
  return { bytes: out.finish(), tensors, header: context.header };
}
