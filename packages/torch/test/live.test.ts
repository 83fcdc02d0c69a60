/** @file Workers of stock torch hear what is written here, and are heard. Skipped without a Python with torch. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { WorkerInfo } from '@backwire/rpc';
import { tensor } from '@backwire/tensor';
import { MessageType } from '@backwire/wire/internal';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { writeCommand } from '../src/messages/codec.ts';
import type { Body } from '../src/messages/commands.ts';
import { builtinExceptions } from '../src/pickle/exceptions.ts';
import { writePython } from '../src/pickle/python-writer.ts';
import { tupleOf } from '../src/values/containers.ts';
import { PyName } from '../src/values/name.ts';
import { PythonUdf, RemoteException } from '../src/values/objects.ts';
import type { CapturedMessage } from './captures.ts';
import { Describer } from './describe.ts';
import { HandWorker, type Asked } from './hand-worker.ts';
import { bodyOf, command, python, textOf, torchModules } from './reading.ts';
import { rewritten } from './rewriting.ts';
import { tape } from './tape.ts';
import { pythonCases } from './written-cases.ts';

const executable = process.env['BACKWIRE_TORCH_PYTHON'] ?? 'python3';
let torch: string | undefined;
try {
  const program = ['-c', 'import torch, numpy; print(torch.__version__)'];
  torch = execFileSync(executable, program, { stdio: ['ignore', 'pipe', 'ignore'] })
    .toString()
    .trim();
} catch {
  torch = undefined;
}

interface Started {
  readonly child: ChildProcess;
  readonly port: number;
  readonly address: string;
}

async function start(name: string, id: number, port: number, own: string): Promise<Started> {
  const script = fileURLToPath(new URL('stock_worker.py', import.meta.url));
  const child = spawn(executable, ['-W', 'ignore', script, name, String(id), String(port), own], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1', TP_SOCKET_IFNAME: 'lo', OMP_NUM_THREADS: '1' },
  });
  const [line] = (await Promise.race([
    once(createInterface(child.stdout), 'line'),
    once(child, 'exit').then(([code]) => Promise.reject(new Error(`python ended with ${code}`))),
  ])) as [string];
  return { child, ...(JSON.parse(line) as { port: number; address: string }) };
}

const call = (func: PyName, ...args: unknown[]): Body => {
  const { bytes, tensors } = writePython(new PythonUdf(func, tupleOf(args)));
  return writeCommand({ kind: 'python-call', isAsync: false, pickled: bytes, tensors });
};
const stock = (name: string): PyName => new PyName('stock_worker', name);

/** Longest wait for what torch does when it gets to it, on a machine that does much else. */
const WAIT_MS = 60_000;

/** What a Python function returned. */
function returned(body: Body): unknown {
  const answer = command(body);
  if (answer.kind !== 'python-ret') throw new Error(`an answer of kind ${answer.kind}: ${textOf(body)}`);
  return python(answer.pickled, answer.tensors);
}

function answered(value: unknown): Body {
  const { bytes, tensors } = writePython(value);
  return writeCommand({ kind: 'python-ret', pickled: bytes, tensors });
}

/** Without what differs from run to run: stacks, times, weights that were drawn, and which views were computed. */
function comparable(body: Body, program: string): string {
  const text = textOf(body);
  if (program.includes('RemoteModule') || program.includes('legacy(')) return text.replace(/\(.*$/s, '');
  if (body.type === MessageType.EXCEPTION || text.includes('raise <'))
    return text.replace(/\\n( {2}File |\\nAt:|Exception raised from ).*$/s, '');
  return text.replace('computed', 'storage 0 of 8, offset 0, strides [1]');
}

describe.skipIf(torch === undefined)(
  `stock torch ${torch ?? '(skipped: no Python with torch and numpy; set BACKWIRE_TORCH_PYTHON)'}`,
  { timeout: 120_000 },
  () => {
    const processes: Started[] = [];
    let worker: HandWorker;
    /** What w1 and w2 asked and nobody took. */
    const inbox: Asked[] = [];
    let noticed = (): void => undefined;
    let handler: ((request: Asked) => void) | undefined;

    beforeAll(async () => {
      worker = await HandWorker.listen('w0', (request) => {
        if (handler !== undefined) return handler(request);
        inbox.push(request);
        noticed();
      });
      const first = await start('w1', 1, 0, worker.address);
      const second = await start('w2', 2, first.port, worker.address);
      processes.push(first, second);
      worker.dial('w1', first.address);
      worker.dial('w2', second.address);
    }, 120_000);

    afterAll(async () => {
      const codes = processes.map(({ child }) => once(child, 'exit'));
      processes.forEach(({ child }) => child.stdin?.end());
      expect(await Promise.all(codes)).toEqual(processes.map(() => [0, null]));
      worker.close();
      expect(worker.failures).toEqual([]);
    }, 60_000);

    it('takes w0 into its group', async () => {
      const devices = new PyName('torch.distributed.rpc.backend_registry', '_get_device_infos');
      const update = new PyName('torch.distributed.rpc._utils', '_update_group_membership');
      for (const name of ['w1', 'w2']) {
        expect(new Describer().value(returned(await worker.call(name, call(devices))))).toBe('(0, {}, [])');
        expect(returned(await worker.call(name, call(update, new WorkerInfo('w0', 0), [], {}, true)))).toBe(null);
      }
    });

    // Loading them takes seconds, with all of torch at a standstill: a request that is due meanwhile would come too late.
    it('has loaded what programs name, before it says that it is there', async () => {
      for (const name of ['w1', 'w2'])
        expect(returned(await worker.call(name, call(stock('not_loaded'), torchModules)))).toEqual([]);
    });

    const played = tape(
      ({ file, name }) => file === 'static-group.json' || /^init$|^shutdown$|csr|quantized/.test(name),
    );
    it.each(played.map(({ capture, steps }) => [`${capture.name}`, capture.program, steps] as const))(
      'hears w0 of the captured session: %s',
      async (_, program, steps) => {
        const answers = new Map<number, Promise<Body>>();
        const requests = new Map<string, Asked>();
        for (const { kind, message } of steps) {
          const body = bodyOf(message);
          if (kind === 'ask') answers.set(message.id, worker.call(message.to, rewritten(body)));
          else if (kind === 'hear')
            expect(comparable((await answers.get(message.id))!, program)).toBe(comparable(body, program));
          else if (kind === 'asked')
            requests.set(`${message.from} ${message.id}`, await asked(message, comparable(body, program), program));
          else requests.get(`${message.to} ${message.id}`)!.answer(rewritten(body));
        }
        await vi.waitFor(keptNothing, { timeout: WAIT_MS });
      },
    );

    /** RRefs and contexts are gone on both sides; what w1 and w2 tell each other about that is heard by nobody else. */
    async function keptNothing(): Promise<void> {
      for (const name of ['w1', 'w2']) {
        const debts = returned(await worker.call(name, call(stock('debts')))) as Map<string, number>;
        expect([...debts.values()].map(Number), new Describer().value(debts)).toEqual([0, 0, 0, 0, 0, 0]);
      }
    }

    /** The request that this captured one stands for. */
    async function asked({ from, title }: CapturedMessage, text: string, program: string): Promise<Asked> {
      const deadline = Date.now() + WAIT_MS;
      for (;;) {
        const index = inbox.findIndex((request) => request.from === from && comparable(request.body, program) === text);
        if (index >= 0) return inbox.splice(index, 1)[0]!;
        if (Date.now() > deadline)
          throw new Error(`${title} did not come: ${text}\n${inbox.map(({ body }) => textOf(body)).join('\n')}`);
        await new Promise<void>((resolve) => {
          noticed = resolve;
          setTimeout(resolve, 1_000);
        });
      }
    }

    it('asked for nothing else', () => {
      expect(inbox.map(({ body }) => textOf(body))).toEqual([]);
    });

    // Python takes these for something to do.
    const plain = pythonCases.filter(([name]) => !['a call', 'a failure', 'references'].includes(name));
    it.each(plain)('reads and writes %s', async (_, value, text) => {
      expect(returned(await worker.call('w1', call(stock('describe'), value)))).toBe(text);
      expect(new Describer().value(returned(await worker.call('w1', call(stock('same'), value))))).toBe(text);
    });

    /** Lets `serve` answer the calls of Python functions that come while `run` does its work. */
    async function serving<T>(serve: (udf: PythonUdf) => unknown, run: () => Promise<T>): Promise<T> {
      handler = ({ body, answer }) => {
        const request = command(body);
        if (request.kind !== 'python-call') throw new Error(`a request of kind ${request.kind}`);
        answer(answered(serve(python(request.pickled, request.tensors) as PythonUdf)));
      };
      try {
        return await run();
      } finally {
        handler = undefined;
      }
    }

    it.each(plain)('is answered with %s', async (_, value, text) => {
      const found = serving(
        (udf) => udf.args[0],
        async () => returned(await worker.call('w1', call(stock('ask'), value))),
      );
      expect(await found).toBe(text);
    });

    it('raises errors of w0, whatever their text', async () => {
      const found = serving(
        (udf) => RemoteException.saying(String(udf.args[0]), builtinExceptions.get('ValueError')!),
        async () => returned(await worker.call('w1', call(stock('fail'), 'é 😀 \\ \n "'))),
      );
      // Stock torch puts the class before the text and its stack after it.
      const [said] = ((await found) as string).split('\n\nAt:\n');
      expect(said).toBe('ValueError: ValueError: é 😀 \\ \n "');
    });

    it('has many calls under way in both directions', async () => {
      const large = tensor(Float32Array.from({ length: 1 << 22 }, (_, i) => i));
      const found = serving(
        (udf) => udf.args[0],
        async () => {
          const theirs = worker.call('w1', call(stock('crowd'), 500, 1_000));
          const ours = Array.from({ length: 500 }, (_, i) => worker.call('w2', call(stock('same'), i)));
          const echo = returned(await worker.call('w2', call(stock('same'), large))) as typeof large;
          expect(echo.eq(large).all().item()).toBe(1);
          expect((await Promise.all(ours)).map(returned)).toEqual(ours.map((_, i) => i));
          return returned(await theirs);
        },
      );
      expect(await found).toBe(500);
    });
  },
);
