/** @file A static group of which each worker is torch's, or of this kind: in this process, or in one of its own. */
import assert from 'node:assert/strict';
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { freePort } from '@backwire/testing';
import { createTorchAgent, type TorchAgent } from '../../src/index.ts';
import { Python, type PythonSettings } from '../../test/python.ts';

/** Where a worker is: torch's process, this process, or a process of this kind that runs worker.ts. */
export type Place = 'torch' | 'here' | 'process';

/** What torch's workers may use to talk. @default all they have: shared memory among themselves, TCP with workers of this kind */
export type Links = Pick<PythonSettings, 'transports' | 'channels'>;

/** TCP for everyone. */
export const TCP: Links = { transports: ['uv'], channels: ['basic'] };

const JOIN_MS = 600_000;
const LEAVE_MS = 60_000;

export class Group {
  private readonly agents = new Map<string, TorchAgent>();
  private readonly pythons = new Map<string, Python>();
  private readonly children = new Map<string, ChildProcess>();
  private readonly exits: Promise<unknown>[] = [];

  private constructor() {}

  /** Starts workers of these names, the first of them as rank 0; those of torch have `program` as a module. */
  static async start(places: Readonly<Record<string, Place>>, program: string, links: Links = {}): Promise<Group> {
    const group = new Group();
    try {
      await group.begin(places, program, links);
      return group;
    } catch (error) {
      await group.kill();
      throw error;
    }
  }

  agent(name: string): TorchAgent {
    const found = this.agents.get(name);
    if (found === undefined) throw new Error(`no worker '${name}' is here`);
    return found;
  }

  /** Runs code in a worker of torch: what its expression gives, as text. */
  python(name: string, code: string): Promise<string> {
    const found = this.pythons.get(name);
    if (found === undefined) throw new Error(`no worker '${name}' of torch`);
    return found.run(code);
  }

  /** The value of an expression in a worker of torch, which JSON has to know. */
  async value(name: string, expression: string): Promise<unknown> {
    const text = JSON.parse(await this.python(name, `json.dumps(${expression})`)) as string;
    return JSON.parse(text);
  }

  /** All leave, in good order. */
  async end(): Promise<void> {
    const codes = Promise.all([...this.pythons.values()].map((python) => python.end()));
    await Promise.all([...this.agents.values()].map((agent) => agent.shutdown({ timeoutMs: LEAVE_MS })));
    assert.deepEqual(
      await codes,
      [...this.pythons].map(() => 0),
    );
    await Promise.all(this.exits);
  }

  /** What has ended by itself is ended; whatever failed, nothing stays behind. */
  async kill(): Promise<void> {
    for (const child of this.children.values()) child.kill('SIGKILL');
    const agents = [...this.agents.values()].map((agent) => agent.shutdown({ graceful: false, timeoutMs: 1_000 }));
    await Promise.allSettled([...[...this.pythons.values()].map((python) => python.kill()), ...this.exits, ...agents]);
  }

  private async begin(places: Readonly<Record<string, Place>>, program: string, links: Links): Promise<void> {
    const init = `tcp://127.0.0.1:${await freePort()}`;
    const size = Object.keys(places).length;
    const starting = Object.entries(places).map(([name, place], rank): Promise<unknown> => {
      if (place === 'process') return this.fork(name, [name, String(rank), String(size), init]);
      if (place === 'torch') {
        const { python, ready } = Python.start({ name, rank, size, init, timeout: 120, ...links });
        this.pythons.set(name, python);
        return ready;
      }
      const how = { trustNetwork: true, initTimeoutMs: JOIN_MS, rpcTimeoutMs: 120_000 };
      const joining = createTorchAgent({ name, rank, worldSize: size, initMethod: init, ...how });
      return joining.then((agent) => this.agents.set(name, agent));
    });
    await Promise.all(starting);
    const path = fileURLToPath(new URL(`${program}.py`, import.meta.url));
    const load = `${program} = import_file('${program}', ${JSON.stringify(path)})`;
    await Promise.all([...this.pythons.values()].map((python) => python.run(load)));
  }

  private async fork(name: string, args: readonly string[]): Promise<void> {
    const child = fork(new URL('worker.ts', import.meta.url), args);
    this.children.set(name, child);
    const exit = once(child, 'exit');
    this.exits.push(exit);
    const ended = exit.then(([code]) => Promise.reject(new Error(`worker '${name}' ended with ${code}`)));
    ended.catch(() => undefined);
    await Promise.race([once(child, 'message'), ended]);
  }
}
