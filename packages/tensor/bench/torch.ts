/** @file The other side of the comparison: a Python process with PyTorch that times the same case on one thread. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** A Python that can import torch: BACKWIRE_TORCH_PYTHON, or python3; undefined where there is none. */
export function findTorch(): string | undefined {
  const python = process.env['BACKWIRE_TORCH_PYTHON'] ?? 'python3';
  return spawnSync(python, ['-c', 'import torch'], { stdio: 'ignore' }).status === 0 ? python : undefined;
}

/** PyTorch, asked one thing at a time. */
export class Torch {
  private readonly child: ChildProcess;
  private readonly answers: AsyncIterator<string>;
  version = '';

  private constructor(python: string) {
    const script = fileURLToPath(new URL('peer.py', import.meta.url));
    this.child = spawn(python, [script], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.answers = createInterface({ input: this.child.stdout as NodeJS.ReadableStream })[Symbol.asyncIterator]();
  }

  static async start(python: string): Promise<Torch> {
    const torch = new Torch(python);
    torch.version = ((await torch.answer()) as { torch: string }).torch;
    return torch;
  }

  /** Makes a case ready, in place of the one before. */
  async prepare(name: string): Promise<void> {
    await this.ask({ case: name });
  }

  /** Milliseconds a call, over `calls` of them. */
  async time(calls: number): Promise<number> {
    return ((await this.ask({ calls })) as { ms: number }).ms;
  }

  async stop(): Promise<void> {
    const gone = once(this.child, 'exit');
    this.child.stdin?.end();
    await gone;
  }

  private ask(request: object): Promise<unknown> {
    this.child.stdin?.write(`${JSON.stringify(request)}\n`);
    return this.answer();
  }

  private async answer(): Promise<unknown> {
    const next = await this.answers.next();
    if (next.done === true) throw new Error('the PyTorch process ended');
    return JSON.parse(next.value) as unknown;
  }
}
