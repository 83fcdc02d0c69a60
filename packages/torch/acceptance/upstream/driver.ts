/** @file The process of Python that runs PyTorch's own tests, all ranks but one. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** What became of one rank of one test. */
export interface Outcome {
  readonly result: 'pass' | 'fail' | 'skip';
  /** The stack of what failed, or why it was skipped. */
  readonly text?: string;
  /** The end of what the rank printed, where it failed. */
  readonly said?: string;
}

interface TestRun {
  readonly class: string;
  readonly test: string;
  /** The rank that is played here. */
  readonly without: number;
  /** Where the store of the RPC group is. */
  readonly rpc: string;
  /** Where that of the test's other process group is. */
  readonly group: string;
  /** Whether both are served by a process of their own, and not by rank 0. */
  readonly apart: boolean;
  readonly seconds: number;
}

interface Answer {
  readonly tests?: readonly string[];
  readonly size?: number;
  readonly ranks?: Readonly<Record<string, Outcome>>;
}

export class Driver {
  private readonly child: ChildProcess;
  private waiting: { resolve(answer: Answer): void; reject(error: Error): void } | undefined;

  private constructor(executable: string) {
    const script = fileURLToPath(new URL('driver.py', import.meta.url));
    this.child = spawn(executable, ['-W', 'ignore', script], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: {
        ...process.env,
        PYTHONDONTWRITEBYTECODE: '1',
        TP_SOCKET_IFNAME: 'lo',
        GLOO_SOCKET_IFNAME: 'lo',
        OMP_NUM_THREADS: '1',
      },
    });
    createInterface(this.child.stdout as NodeJS.ReadableStream).on('line', (line) => {
      this.waiting?.resolve(JSON.parse(line) as Answer);
      this.waiting = undefined;
    });
    this.child.on('exit', (code, signal) =>
      this.waiting?.reject(new Error(`the driver of Python's ranks ended with ${code ?? signal}`)),
    );
  }

  static start(executable: string): Driver {
    return new Driver(executable);
  }

  /** The tests of a class, and how many ranks it has. */
  async list(name: string): Promise<{ readonly tests: readonly string[]; readonly size: number }> {
    const { tests = [], size = 0 } = await this.ask({ list: name });
    return { tests, size };
  }

  /** Runs one test; resolves when all its ranks have ended, by themselves or after their time. */
  async run(run: TestRun): Promise<Readonly<Record<string, Outcome>>> {
    return (await this.ask(run)).ranks ?? {};
  }

  end(): void {
    this.child.stdin?.end();
  }

  private ask(request: object): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.waiting = { resolve, reject };
      this.child.stdin?.write(`${JSON.stringify(request)}\n`);
    });
  }
}
