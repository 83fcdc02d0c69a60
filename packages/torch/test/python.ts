/** @file A process of stock torch for the live tests: told what to run in Python, and asked what came of it. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const executable = process.env['BACKWIRE_TORCH_PYTHON'] ?? 'python3';

/** The version of torch of that Python; undefined where there is none. */
export const torchVersion = ((): string | undefined => {
  try {
    const program = ['-c', 'import torch, numpy; print(torch.__version__)'];
    return execFileSync(executable, program, { stdio: ['ignore', 'pipe', 'ignore'] })
      .toString()
      .trim();
  } catch {
    return undefined;
  }
})();

/** The name of a suite that needs it: says why it is skipped. */
export const withTorch = `stock torch ${torchVersion ?? '(skipped: no Python with torch and numpy; set BACKWIRE_TORCH_PYTHON)'}`;

export interface PythonSettings {
  readonly name: string;
  readonly rank?: number;
  /** Without it the group is dynamic. */
  readonly size?: number;
  readonly init?: string;
  /** Functions that Node has: Python needs something of the same name to call. */
  readonly stubs?: readonly string[];
  /** Seconds. */
  readonly timeout?: number;
  /** What TensorPipe may use. @default all it has */
  readonly transports?: readonly string[];
  readonly channels?: readonly string[];
  /** Ends without a word to the others. */
  readonly abandon?: boolean;
}

/** What Python raised. */
class PythonError extends Error {
  readonly type: string;

  constructor(type: string, text: string) {
    super(text);
    this.type = type;
  }
}

interface Outcome {
  readonly ready?: boolean;
  readonly value?: string;
  readonly error?: string;
  readonly text?: string;
}

export class Python {
  readonly child: ChildProcess;
  private readonly waiting: ((outcome: Outcome) => void)[] = [];
  private readonly ended: Promise<number | string>;
  private over: Error | undefined;
  private errors = '';

  private constructor(settings: PythonSettings) {
    const script = fileURLToPath(new URL('torch_worker.py', import.meta.url));
    this.child = spawn(executable, ['-W', 'ignore', script, JSON.stringify(settings)], {
      stdio: ['pipe', 'pipe', 'pipe'],
      env: {
        ...process.env,
        PYTHONDONTWRITEBYTECODE: '1',
        TP_SOCKET_IFNAME: 'lo',
        GLOO_SOCKET_IFNAME: 'lo',
        OMP_NUM_THREADS: '1',
      },
    });
    this.child.stderr?.on('data', (text: Buffer) => (this.errors = (this.errors + text.toString()).slice(-20_000)));
    createInterface(this.child.stdout as NodeJS.ReadableStream).on('line', (line) => {
      if (line.startsWith('{')) this.waiting.shift()?.(JSON.parse(line) as Outcome);
    });
    this.ended = once(this.child, 'exit').then(([code, signal]) => {
      this.over = new Error(`python '${settings.name}' ended with ${code ?? signal}:\n${this.errors}`);
      for (const resolve of this.waiting.splice(0)) resolve({ error: 'Ended', text: this.over.message });
      return (code ?? signal) as number | string;
    });
  }

  /** Starts a worker; `ready` resolves when it has joined. */
  static start(settings: PythonSettings): { readonly python: Python; readonly ready: Promise<unknown> } {
    const python = new Python(settings);
    const ready = python.next().then((outcome) => {
      if (outcome.ready !== true) throw new Error(outcome.text);
    });
    ready.catch(() => undefined);
    return { python, ready };
  }

  /** What an expression gives, as text; statements give None. @throws PythonError */
  async run(code: string): Promise<string> {
    if (this.over !== undefined) throw this.over;
    const answer = this.next();
    this.child.stdin?.write(`${JSON.stringify(code)}\n`);
    const { value, error, text } = await answer;
    if (error !== undefined) throw new PythonError(error, text ?? '');
    return value as string;
  }

  /** Lets it leave its group; its exit code. */
  end(): Promise<number | string> {
    this.child.stdin?.end();
    return this.ended;
  }

  kill(): Promise<number | string> {
    this.child.kill('SIGKILL');
    return this.ended;
  }

  private next(): Promise<Outcome> {
    return new Promise((resolve) => this.waiting.push(resolve));
  }
}
