/** @file Which half of an agent gets a frame: requests go to its server, answers to its client, the rest to extensions. */
import { MessageType as Types } from '@backwire/wire/internal';
import type { MessageType } from '@backwire/wire';
import { AnswerReader } from '../client/answer-reader.ts';
import type { Caller } from '../client/caller.ts';
import type { ExtendedEnvironment } from '../extensions/chain.ts';
import type { Dispatcher } from '../server/dispatcher.ts';
import type { InboundCalls } from '../server/inbound-calls.ts';
import type { Peer } from '../session/peer.ts';
import type { RawFrame } from '../session/incoming-frame.ts';
import type { FrameHandler } from '../session/receiver.ts';

export interface RouterParts {
  readonly environment: ExtendedEnvironment;
  readonly caller: Caller;
  readonly dispatcher: Dispatcher;
  /** The peer says what it knows of the other members. */
  reported(peer: Peer, payload: Uint8Array): void;
}

export class FrameRouter implements FrameHandler {
  private readonly parts: RouterParts;
  private readonly peer: Peer;
  private readonly calls: InboundCalls;
  private readonly answers: AnswerReader;

  constructor(parts: RouterParts, peer: Peer) {
    this.parts = parts;
    this.peer = peer;
    this.calls = parts.dispatcher.callsOf(peer);
    this.answers = new AnswerReader(parts.environment, parts.caller, peer);
  }

  get running(): number {
    return this.parts.dispatcher.handlers.running;
  }

  get serving(): boolean {
    return this.calls.open.size > 0;
  }

  request(frame: RawFrame): void {
    this.calls.arrived(frame);
  }

  response(frame: RawFrame): void {
    this.answers.arrived(frame);
  }

  entry(extension: string, data: Uint8Array): (() => void) | undefined {
    if (this.calls.takesEntry(extension, data)) return undefined;
    return this.parts.environment.extensions.delivered(extension, this.peer.worker, data);
  }

  cancel(id: number, why: number): void {
    this.calls.cancelled(id, why);
  }

  credit(id: number, items: number): void {
    this.calls.credited(id, items);
  }

  control(type: MessageType, payload: Uint8Array): void {
    if (type === Types.REPORT) {
      this.parts.reported(this.peer, payload);
      return;
    }
    this.parts.environment.extensions.control(this.peer.worker, type, payload);
  }

  pong(ping: number): void {
    this.parts.dispatcher.stallGuard.pong(this.peer, ping);
  }

  drained(lastSeq: number): void {
    this.peer.lastServed = Math.min(this.peer.lastServed, lastSeq);
    this.parts.caller.calls.drained(this.peer);
  }

  closed(): void {
    this.calls.close();
    this.parts.dispatcher.forget(this.peer);
  }
}
