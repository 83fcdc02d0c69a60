/** @file A program in Python as a long-lived process that answers packed questions over a pipe. */
import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { pack, unpack } from './packed.ts';

const modules = fileURLToPath(new URL('../python', import.meta.url));

/** The process. Its program imports `serve` of python/packed.py. Questions are asked one at a time. */
export class PythonPeer {
  /** What it said first. */
  readonly greeting: unknown;
  private readonly pipe: Pipe;

  private constructor(pipe: Pipe, greeting: unknown) {
    this.pipe = pipe;
    this.greeting = greeting;
  }

  /** Starts `python program` and waits for its greeting; rejects with what it wrote when it ends before. */
  static async start(python: string, program: URL): Promise<PythonPeer> {
    const pipe = new Pipe(python, program);
    const first = await pipe.receive();
    if (first === undefined) throw new Error(`${python} could not start ${program.pathname}: ${pipe.complaint}`);
    return new PythonPeer(pipe, unpack(first));
  }

  /** The answer; undefined when the process ended by a signal. Rejects with its words when its program failed. */
  async ask(question: unknown): Promise<unknown> {
    this.pipe.send(pack(question));
    const reply = await this.pipe.receive();
    if (reply !== undefined) return unpack(reply);
    if (this.pipe.killed) return undefined;
    throw new Error(`the program in Python failed: ${this.pipe.complaint}`);
  }

  async stop(): Promise<void> {
    await this.pipe.close();
  }
}

/** The process and its frames: a length of four bytes, then as many. */
class Pipe {
  /** What it wrote to its standard error, the end of it. */
  complaint = '';
  private readonly child: ChildProcessWithoutNullStreams;
  private readonly frames: AsyncIterator<Uint8Array>;
  private readonly ended: Promise<unknown>;

  constructor(python: string, program: URL) {
    const env = { ...process.env, PYTHONDONTWRITEBYTECODE: '1', PYTHONPATH: modules };
    this.child = spawn(python, ['-u', fileURLToPath(program)], { env });
    this.ended = new Promise((resolve) => this.child.once('close', resolve).once('error', resolve));
    this.child.once('error', (error) => (this.complaint = error.message));
    this.child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.complaint = (this.complaint + text).slice(-4_000);
    });
    // Written to after its end: `receive` tells.
    this.child.stdin.on('error', () => undefined);
    this.frames = framesOf(this.child.stdout)[Symbol.asyncIterator]();
  }

  /** Whether it ended by a signal. */
  get killed(): boolean {
    return this.child.signalCode !== null;
  }

  send(bytes: Uint8Array): void {
    const head = new Uint8Array(4);
    new DataView(head.buffer).setUint32(0, bytes.length, true);
    this.child.stdin.write(head);
    this.child.stdin.write(bytes);
  }

  /** The next frame; undefined when the process has ended. */
  async receive(): Promise<Uint8Array | undefined> {
    const next = await this.frames.next();
    if (next.done !== true) return next.value;
    await this.ended;
    return undefined;
  }

  async close(): Promise<void> {
    this.child.stdin.end();
    if (this.child.exitCode === null && this.child.signalCode === null) await once(this.child, 'close');
  }
}

/** The frames of a stream. Parts are joined only when a whole frame is there: a large one comes in thousands of them. */
async function* framesOf(stream: AsyncIterable<Buffer>): AsyncGenerator<Uint8Array> {
  let parts: Buffer[] = [];
  let size = 0;
  let need = 4;
  for await (const part of stream) {
    parts.push(part);
    size += part.length;
    if (size < need) continue;
    let held = Buffer.concat(parts);
    for (need = 4; held.length >= need; need = 4) {
      need += held.readUInt32LE();
      if (held.length < need) break;
      yield held.subarray(4, need);
      held = held.subarray(need);
    }
    parts = [held];
    size = held.length;
  }
}
