/** @file The frames of the simulated workers: plain objects instead of bytes, with what only the oracle may look at beside them. */
import type { Resume } from '../src/protocol/session.ts';

/** One worker in one of its lives. */
export interface Life {
  readonly name: string;
  readonly incarnation: number;
}

/** What a numbered frame says. `uid` names it for the oracle; the protocol never reads it. */
export type Payload =
  | {
      readonly kind: 'call';
      readonly callId: number;
      readonly uid: number;
      readonly remainingMs: number;
      readonly durationMs: number;
      /** With the storages: what it takes of the credit. */
      readonly bytes: number;
      readonly bodies: readonly number[];
    }
  | {
      readonly kind: 'result';
      readonly callId: number;
      readonly uid: number;
      readonly ran: boolean;
      /** Why it did not run. */
      readonly refused?: 'draining' | undefined;
      readonly value: number;
    }
  | { readonly kind: 'cancel'; readonly callId: number }
  /** Calls up to this frame are still served, later ones are not. */
  | { readonly kind: 'drain'; readonly lastSeq: number }
  | { readonly kind: 'body-lost'; readonly seq: number }
  | { readonly kind: 'control'; readonly uid: number };

/** A frame of the header lane. */
export interface Numbered {
  readonly kind: 'numbered';
  readonly seq: number;
  readonly ack: number;
  readonly bytes: number;
  readonly payload: Payload;
}

/** What a link carries. Loose frames are lost with it. */
export type Frame =
  | Numbered
  | { readonly kind: 'ack'; readonly ack: number }
  | { readonly kind: 'credit'; readonly ack: number; readonly calls: number; readonly bytes: number }
  | {
      readonly kind: 'body';
      readonly ack: number;
      readonly seq: number;
      readonly storage: number;
      readonly offset: number;
      readonly bytes: number;
      readonly asks: boolean;
    }
  | {
      readonly kind: 'body-ack';
      readonly ack: number;
      readonly seq: number;
      readonly storage: number;
      readonly end: number;
      /** It is complete. */
      readonly all: boolean;
    }
  | { readonly kind: 'ping'; readonly ack: number }
  | { readonly kind: 'pong'; readonly ack: number }
  | { readonly kind: 'resume'; readonly position: Resume };

/** What is said before frames flow. */
export type Handshake =
  | { readonly kind: 'hello'; readonly from: Life; readonly to: Life; readonly token: number; readonly dial: number }
  | {
      readonly kind: 'welcome';
      readonly from: Life;
      readonly token: number;
      readonly dial: number;
      readonly resumed: boolean;
    }
  | { readonly kind: 'reject'; readonly code: 'unavailable' | 'fenced' | 'lost' };

/** One message on a simulated connection. */
export type Packet = Handshake | { readonly kind: 'batch'; readonly frames: readonly Frame[] };

/** What a frame counts on a slow link: its header, and what it carries itself. */
export function frameBytes(frame: Frame): number {
  if (frame.kind === 'body') return HEADER_BYTES + frame.bytes;
  if (frame.kind !== 'numbered') return HEADER_BYTES;
  const storages = frame.payload.kind === 'call' ? frame.payload.bodies : [];
  return HEADER_BYTES + frame.bytes - storages.reduce((sum, bytes) => sum + bytes, 0);
}

const HEADER_BYTES = 2;

/** The text of a life, for keys. */
export function lifeKey({ name, incarnation }: Life): string {
  return `${name}#${incarnation}`;
}
