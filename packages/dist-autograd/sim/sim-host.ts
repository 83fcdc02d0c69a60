/** @file An agent for the simulator: what extensions need of one, over a virtual network with jitter and deaths. */
import { RpcError, WorkerInfo, type CallOptions, type Logger } from '@backwire/rpc';
import { type ExtensionHost, type Member, type MessageOptions } from '@backwire/rpc/internal';
import { tensor, type Tensor } from '@backwire/tensor';
import { runClean, runWith } from '@backwire/tensor/internal';
import type { Random, Simulation } from '@backwire/testing';
import type { Message } from '@backwire/wire';
import { MessageType } from '@backwire/wire/internal';
import { distAutograd } from '../src/index.ts';
import { AutogradSession, sessionOf } from '../src/internal.ts';

const EXTENSIONS: ReadonlySet<string> = new Set(['dist-autograd']);

/** Runs function `fn` on worker `on`. */
export type Handler = (on: SimHost, fn: number, args: Tensor[]) => Promise<Tensor[]>;

/** All workers and the way between them. Calls may overtake each other and control messages; control messages keep their order. */
export class SimGroup {
  readonly hosts: SimHost[];
  readonly simulation: Simulation;
  readonly handler: Handler;
  /** Messages delivered, by type. */
  readonly delivered = new Map<number, number>();
  private readonly random: Random;
  private readonly jitterMs: number;
  private readonly lastControl = new Map<string, number>();

  constructor(simulation: Simulation, workers: number, jitterMs: number, handler: Handler) {
    this.simulation = simulation;
    this.handler = handler;
    this.jitterMs = jitterMs;
    this.random = simulation.random.split('autograd network');
    this.hosts = Array.from({ length: workers }, (_, id) => new SimHost(this, id));
  }

  host(id: number): SimHost {
    return this.hosts[id] as SimHost;
  }

  deliver(from: SimHost, to: SimHost, label: string, action: () => void, ordered = false): void {
    const key = `${from.id}>${to.id}`;
    let time = this.simulation.clock.now + 0.1 + this.random.exponential(this.jitterMs);
    if (ordered) {
      time = Math.max(time, (this.lastControl.get(key) ?? 0) + 0.001);
      this.lastControl.set(key, time);
    }
    this.simulation.clock.at(time, `${key} ${label}`, () => {
      if (!from.gone && !to.gone) action();
    });
  }

  /** A worker stops at once; the others hear of it one by one. */
  kill(id: number): void {
    const dead = this.host(id);
    dead.gone = true;
    for (const host of this.hosts) {
      if (host.gone) continue;
      this.simulation.clock.after(this.random.float() * 5 * this.jitterMs, `${host.id} hears of ${id}`, () =>
        host.hearOfDeath(dead),
      );
    }
  }

  delay(): number {
    return this.random.exponential(this.jitterMs);
  }
}

const silent: Logger = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

export class SimHost {
  readonly group: SimGroup;
  readonly id: number;
  readonly self: WorkerInfo;
  readonly incarnation = 1;
  readonly incarnationIndex = 0;
  readonly logger = silent;
  readonly session: AutogradSession;
  /** Where the agent of the library is asked for, it is told by this. */
  readonly caller = {};
  gone = false;
  private readonly dead = new Set<number>();
  private readonly pending = new Map<number, { to: number; reject: (error: unknown) => void }>();
  private calls = 0;

  constructor(group: SimGroup, id: number) {
    this.group = group;
    this.id = id;
    this.self = new WorkerInfo(`w${id}`, id);
    distAutograd().attach(this.agent);
    const session = sessionOf(this.agent);
    if (!(session instanceof AutogradSession)) throw new TypeError('another kind of autograd');
    this.session = session;
  }

  get name(): string {
    return this.self.name;
  }

  get agent(): ExtensionHost {
    return this as unknown as ExtensionHost;
  }

  /** Runs `fn` as a program of this worker. */
  run<T>(fn: () => T): T {
    return runClean({ agent: this }, fn);
  }

  resolve(to: number): WorkerInfo {
    return this.group.host(to).self;
  }

  isAlive(worker: WorkerInfo): boolean {
    return !this.dead.has(worker.id);
  }

  incarnationOf(): number {
    return 1;
  }

  extensionsOf(): ReadonlySet<string> {
    return EXTENSIONS;
  }

  now(): number {
    return this.group.simulation.clock.now;
  }

  timeoutMs(options?: CallOptions): number {
    return options?.timeoutMs ?? 0;
  }

  /** A call of a program's function. */
  async callFunction(to: number, fn: number, args: Tensor[]): Promise<Tensor[]> {
    const message: Message = { type: MessageType.PYTHON_CALL, id: 0n, payload: Uint8Array.of(fn), tensors: args };
    const reply = await this.call(this.resolve(to), message, {});
    return [...reply.tensors];
  }

  call(to: WorkerInfo, message: Message, options: MessageOptions = {}): Promise<Message> {
    const raw = options.raw === true;
    const outgoing = raw ? { to, message, options } : this.session.request({ to, message, options });
    const { settled, started } = outgoing as {
      settled?: (outcome: object) => void;
      started?: (cancel: (reason: unknown) => void) => void;
    };
    const id = ++this.calls;
    return new Promise<Message>((resolve, reject) => {
      const finish = (outcome: { reply?: Message; error?: unknown }): void => {
        if (!this.pending.delete(id) || this.gone) return;
        settled?.(outcome);
        if (outcome.reply === undefined) reject(outcome.error);
        else resolve(outcome.reply);
      };
      this.pending.set(id, { to: to.id, reject: (error) => finish({ error }) });
      started?.((reason) =>
        finish({ error: new RpcError('cancelled', 'cancelled', { executed: 'maybe', cause: reason }) }),
      );
      const target = this.group.host(to.id);
      if (this.dead.has(to.id)) return finish({ error: died(to) });
      const sent = onTheWire(outgoing.message);
      this.group.deliver(this, target, `call ${message.type.toString(16)}`, () => {
        void target.handle(this.self, sent).then((reply) =>
          this.group.deliver(target, this, `reply ${message.type.toString(16)}`, () => {
            if (reply instanceof Error) return finish({ error: reply });
            if (this.pending.has(id)) finish({ reply: raw ? reply : this.session.response(to, reply) });
          }),
        );
      });
    });
  }

  control(to: WorkerInfo, type: number, payload: Uint8Array): void {
    const target = this.group.host(to.id);
    this.group.deliver(
      this,
      target,
      `control ${type.toString(16)}`,
      () => target.session.controls.get(type)?.(this.self, payload),
      true,
    );
  }

  hearOfDeath(peer: SimHost): void {
    if (this.gone) return;
    this.dead.add(peer.id);
    for (const call of [...this.pending.values()]) if (call.to === peer.id) call.reject(died(peer.self));
    const left = this.group.hosts.filter(({ id }) => !this.dead.has(id));
    const memberOf = ({ self }: SimHost): Member => ({ worker: self, incarnation: 1 });
    this.session.viewChanged(1, left.map(memberOf), [memberOf(peer)], []);
  }

  private async handle(from: WorkerInfo, message: Message): Promise<Message | Error> {
    const { delivered } = this.group;
    delivered.set(message.type, (delivered.get(message.type) ?? 0) + 1);
    try {
      return onTheWire(await runClean({ agent: this, call: {} }, () => this.dispatch(from, message)));
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error));
    }
  }

  private dispatch(from: WorkerInfo, message: Message): Promise<Message> {
    const own = this.session.messages.get(message.type);
    if (own !== undefined) return own({ from, message });
    if (message.type === MessageType.FORWARD_AUTOGRAD_REQ) {
      return this.session.serve({ from, message }, (inner) => this.runHandler(inner.message));
    }
    return runWith({ contextId: undefined }, () => this.runHandler(message));
  }

  private async runHandler(message: Message): Promise<Message> {
    await new Promise<void>((resolve) => {
      this.group.simulation.clock.after(this.group.delay(), `${this.id} works`, () => {
        if (!this.gone) resolve();
      });
    });
    const tensors = await this.group.handler(this, message.payload[0] as number, [...message.tensors]);
    return { type: MessageType.PYTHON_RET, id: 0n, payload: new Uint8Array(0), tensors };
  }
}

function died(worker: WorkerInfo): RpcError {
  return new RpcError('peer-died', `worker '${worker.name}' died`, { peer: worker, executed: 'maybe' });
}

/** What arrives of a message: the same bytes in tensors of the receiver's own. */
function onTheWire(message: Message): Message {
  const tensors = message.tensors.map((t) => {
    const copy = tensor([...(t.toArray() as number[])], { dtype: t.dtype });
    copy.requiresGrad = t.requiresGrad;
    return copy;
  });
  return { ...message, payload: message.payload.slice(), tensors };
}
