/** @file Two ends of pipes over wires in memory. */
import { DEFAULT_TORCH_LIMITS, type TorchLimits } from '../src/limits.ts';
import { PipeDialler } from '../src/pipe/dialler.ts';
import { PipeListener } from '../src/pipe/listener.ts';
import type { IncomingMessage, PipeMemory } from '../src/pipe/message.ts';
import type { Pipe, PipeOptions } from '../src/pipe/pipe.ts';
import { wire, type WireEnd } from './wires.ts';

/** What one end of a pipe heard. */
export class Heard {
  readonly messages: IncomingMessage[] = [];
  readonly closed: (Error | undefined)[] = [];

  message(message: IncomingMessage): void {
    this.messages.push(message);
  }
}

/** Memory that counts what is out. */
class CountedMemory implements PipeMemory {
  out = 0;
  readonly taken: number[] = [];

  take(nbytes: number): Uint8Array {
    this.out++;
    this.taken.push(nbytes);
    return new Uint8Array(nbytes);
  }

  give(bytes: Uint8Array): void {
    if (bytes.length > 0) this.out--;
  }
}

const ADDRESS = '127.0.0.1:38083';

/** A listener and diallers to it. Wires are delivered one after another by `run`. */
export class PipeWorld {
  readonly limits: TorchLimits;
  readonly memory = new CountedMemory();
  readonly ends: WireEnd[] = [];
  /** Diallers' ends, in the order in which connections were opened. */
  readonly dialled: WireEnd[] = [];
  readonly accepted: { readonly name: string; readonly pipe: Pipe; readonly heard: Heard }[] = [];
  readonly refused: (Error | undefined)[] = [];
  readonly listener: PipeListener;
  readonly banned = new Set<string>();
  private readonly channels: readonly string[];
  private registrations = 0;

  /** Both ends may have `channels`; the one of torch alone, where nothing is said. */
  constructor(limits: Partial<TorchLimits> = {}, channels: readonly string[] = ['basic']) {
    this.limits = { ...DEFAULT_TORCH_LIMITS, ...limits };
    this.channels = channels;
    this.listener = new PipeListener(ADDRESS, this.options, {
      admit: (name) => (this.banned.has(name) ? new Error(`${name} is no member`) : undefined),
      opening: (name, pipe) => {
        const heard = new Heard();
        this.accepted.push({ name, pipe, heard });
        return { message: (message) => heard.message(message), closed: (error) => heard.closed.push(error) };
      },
      registration: () => this.registrations++,
    });
  }

  get options(): PipeOptions {
    return { limits: this.limits, memory: this.memory, channels: this.channels };
  }

  /** Opens a connection to the listener; the dialler's end. */
  connect(): WireEnd {
    const [near, far] = wire();
    this.ends.push(near, far);
    this.dialled.push(near);
    let pipe: Pipe | undefined;
    far.run(
      this.listener.accept(far, (found) => (pipe = found)),
      (error) => (pipe === undefined ? this.refused.push(error) : pipe.fail(error ?? new Error('the peer closed'))),
    );
    return near;
  }

  /** `channels` are the dialler's, where they are others. */
  dial(name: string, channels: readonly string[] = this.channels): { readonly pipe: Pipe; readonly heard: Heard } {
    const heard = new Heard();
    const dialler: PipeDialler = new PipeDialler(
      name,
      { ...this.options, channels },
      {
        message: (message) => heard.message(message),
        closed: (error) => heard.closed.push(error),
        dial: (address) => {
          if (address !== ADDRESS) throw new Error(`no such address: ${address}`);
          for (const use of ['reply', 'channel'] as const) {
            const end = this.connect();
            end.run(dialler[use](end), (error) => dialler.pipe.fail(error ?? new Error('the peer closed')));
          }
        },
      },
    );
    const first = this.connect();
    first.run(dialler.first(first), (error) => dialler.pipe.fail(error ?? new Error('the peer closed')));
    return { pipe: dialler.pipe, heard };
  }

  /** Delivers everything, in pieces of at most `piece` bytes; `order` says which end's turn it is. */
  run(piece = 1 << 20, order: (count: number) => number = () => 0): void {
    for (;;) {
      const ready = this.ends.filter(
        (end) => end.outgoing.length > 0 || (end.ended !== undefined && end.other.ended === undefined),
      );
      if (ready.length === 0) return;
      ready[order(ready.length)]?.deliver(piece);
    }
  }
}
