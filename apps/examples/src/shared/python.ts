/** @file Stock PyTorch beside an example: finds a Python that has it, and runs a module of the example's folder. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { OptionError } from './flags.ts';

const executable = process.env['BACKWIRE_TORCH_PYTHON'] ?? 'python3';

/** The version of torch of that Python; undefined where there is none. */
export function torchVersion(): string | undefined {
  try {
    const program = ['-c', 'import torch; print(torch.__version__)'];
    return execFileSync(executable, program, { stdio: ['ignore', 'pipe', 'ignore'] })
      .toString()
      .trim();
  } catch {
    return undefined;
  }
}

export interface PythonProcess extends AsyncDisposable {
  /** Resolves when it has ended by itself; rejects when it failed. */
  readonly ended: Promise<void>;
}

/**
 * Runs `module.main()` of the Python file `module`.py in `folder`, with `env` beside this process's environment. Disposing kills it.
 * @throws OptionError where no Python has torch.
 */
export function startPython(folder: string, module: string, env: Readonly<Record<string, string>>): PythonProcess {
  if (torchVersion() === undefined) {
    throw new OptionError(
      `'${executable}' has no torch: 'pip install torch numpy', or name another in BACKWIRE_TORCH_PYTHON`,
    );
  }
  const child = spawn(executable, ['-W', 'ignore', '-c', `import ${module}; ${module}.main()`], {
    cwd: folder,
    stdio: ['ignore', 'inherit', 'inherit'],
    env: {
      ...process.env,
      PYTHONDONTWRITEBYTECODE: '1',
      // All of it stays on this machine.
      TP_SOCKET_IFNAME: 'lo',
      GLOO_SOCKET_IFNAME: 'lo',
      ...env,
    },
  });
  const ended = end(child);
  ended.catch(() => undefined);
  return {
    ended,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await ended.catch(() => undefined);
    },
  };
}

async function end(child: ChildProcess): Promise<void> {
  const [code, signal] = (await once(child, 'exit')) as [number | null, string | null];
  if (code !== 0) throw new Error(`the Python process ended with ${code ?? signal}`);
}

/** A port that was free a moment ago: the group's store is served there. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
