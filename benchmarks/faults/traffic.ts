/** @file The calls of one worker: their values, their order, when they end, and whether what an error says of their execution is true. */
import { rpcInfo, rpcSync, type RpcAgent } from '@backwire/rpc';
import { ones, type Tensor } from '@backwire/tensor';
import { count, ledger, nameOf, ran, scale } from './functions.ts';

/** Between two bursts to one worker. */
const PAUSE_MS = 25;
/** Calls of a burst: they are sent without waiting for each other, and have to run in their order. */
const BURST = 8;
const TIMES_MS = [500, 3_000, 10_000] as const;
/** A call ends so long after its time at the latest, when the loop here has not stood still. */
const LATE_MS = 2_500;
const LOOK_MS = 100;
const SIZES = [4, 5_000, 300_000] as const;
/** Calls that failed and whose callee is asked later what it knows of them, at most. */
const MAX_DOUBTS = 2_000;

/** What an agent tells its extensions of the lives of others. */
interface Lives {
  resolve(to: string): unknown;
  incarnationOf(worker: unknown): number;
}

/** A failed call, and what its error said. */
interface Doubt {
  readonly to: string;
  readonly calleeLife: number | undefined;
  readonly n: number;
  readonly executed: 'yes' | 'no';
}

export class Traffic {
  private readonly agent: RpcAgent;
  private readonly life: string;
  private readonly others: readonly string[];
  private readonly tensors: readonly Tensor[];
  private readonly next = new Map<string, number>();
  private readonly codes: Record<string, number> = {};
  private doubts: Doubt[] = [];
  private verified = 0;
  private ok = 0;
  private open = 0;
  private over = false;
  private standstillMs = 0;
  private lastLookAt = performance.now();
  private loops: Promise<void>[] = [];

  constructor(agent: RpcAgent, rank: number, size: number) {
    this.agent = agent;
    this.life = `w${rank}/${process.pid}/${Date.now()}`;
    this.others = Array.from({ length: size }, (_, other) => `w${other}`).filter((name) => name !== `w${rank}`);
    this.tensors = SIZES.map((length) => ones([length]));
    setInterval(() => {
      const now = performance.now();
      this.standstillMs += Math.max(0, now - this.lastLookAt - 2 * LOOK_MS);
      this.lastLookAt = now;
    }, LOOK_MS).unref();
  }

  begin(): void {
    this.loops = this.others.flatMap((to) => [this.countAt(to), this.echoAt(to)]);
  }

  async end(): Promise<void> {
    this.over = true;
    await Promise.all(this.loops);
    if (this.open > 0) ledger.note(`${this.open} calls never ended`);
  }

  report(): Record<string, unknown> {
    return { ok: this.ok, codes: this.codes, verified: this.verified, standstillMs: this.standstillMs };
  }

  /** Who is not seen, or does not answer. */
  async unreached(): Promise<string[]> {
    const answers = await Promise.all(
      this.others.map(async (name) => {
        const call = this.agent.run(() => rpcSync(name, nameOf, [], { timeoutMs: 2_000 }));
        return (await call.catch(() => undefined)) === name ? [] : [name];
      }),
    );
    return answers.flat();
  }

  /** Bursts of numbered calls. */
  private async countAt(to: string): Promise<void> {
    while (!this.over) {
      const timeoutMs = TIMES_MS[Math.floor(Math.random() * TIMES_MS.length)] as number;
      await Promise.all(Array.from({ length: BURST }, () => this.countOnce(to, timeoutMs)));
      await this.verify();
      await sleep(PAUSE_MS);
    }
  }

  private async countOnce(to: string, timeoutMs: number): Promise<void> {
    const n = this.next.get(to) ?? 0;
    this.next.set(to, n + 1);
    const calleeLife = this.lifeOf(to);
    try {
      const answer = await this.timed(to, timeoutMs, () => rpcSync(to, count, [this.life, n], { timeoutMs }));
      if (answer !== n) ledger.note(`call ${n} to ${to} was answered ${String(answer)}`);
    } catch (error) {
      const executed = rpcInfo(error)?.executed;
      if (executed === undefined) ledger.note(`call ${n} to ${to}: ${String(error)}`);
      else if (executed !== 'maybe' && this.doubts.length < MAX_DOUBTS)
        this.doubts.push({ to, calleeLife, n, executed });
    }
  }

  /** Tensors there and back. */
  private async echoAt(to: string): Promise<void> {
    for (let i = 0; !this.over; i++) {
      const tensor = this.tensors[i % this.tensors.length] as Tensor;
      await this.timed(to, 10_000, async () => {
        const back = await rpcSync(to, scale, [tensor, i], { timeoutMs: 10_000 });
        const data = back.dataSync();
        if (back.size !== tensor.size || data[0] !== Math.fround(i) || data[back.size - 1] !== Math.fround(i))
          ledger.note(`a product of ${to} is wrong: ${back.size} of ${String(data[0])} for ${i}`);
        back.dispose();
      }).catch(() => undefined);
      await sleep(2 * PAUSE_MS);
    }
  }

  /** A call that has to end in its time. What the loop here stood still is not its fault. */
  private async timed<T>(to: string, timeoutMs: number, call: () => Promise<T>): Promise<T> {
    const [began, stood] = [performance.now(), this.standstillMs];
    this.open++;
    try {
      const value = await this.agent.run(call);
      this.ok++;
      return value;
    } catch (error) {
      const code = rpcInfo(error)?.code ?? 'none';
      this.codes[code] = (this.codes[code] ?? 0) + 1;
      throw error;
    } finally {
      this.open--;
      const late = performance.now() - began - timeoutMs - (this.standstillMs - stood);
      if (late > LATE_MS) ledger.note(`a call to ${to} ended ${Math.round(late)} ms after its time`);
    }
  }

  /** Asks a callee that is still in the same life whether failed calls ran there. */
  private async verify(): Promise<void> {
    const [doubt] = this.doubts.splice(0, 1);
    if (doubt === undefined) return;
    const { to, calleeLife, n, executed } = doubt;
    if (calleeLife === undefined || this.lifeOf(to) !== calleeLife) return;
    try {
      const didRun = await this.agent.run(() => rpcSync(to, ran, [this.life, n], { timeoutMs: 3_000 }));
      if (this.lifeOf(to) !== calleeLife) return;
      this.verified++;
      if (didRun !== (executed === 'yes'))
        ledger.note(`call ${n} to ${to} failed with executed: '${executed}', and ${didRun ? 'ran' : 'did not run'}`);
    } catch {
      this.doubts.push(doubt);
    }
  }

  private lifeOf(name: string): number | undefined {
    const agent = this.agent as unknown as Lives;
    try {
      return agent.incarnationOf(agent.resolve(name));
    } catch {
      return undefined;
    }
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
