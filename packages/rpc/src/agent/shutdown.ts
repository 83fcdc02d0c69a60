/** @file The end of an agent: one deadline for all of it, and who is missing is named. */
import { MessageType, encodeProto, controlProto } from '@backwire/wire/internal';
import type { AgentParts } from '../inspection/agent-parts.ts';
import type { Collectives } from './collectives.ts';
import { forgetDefault } from './default-agent.ts';
import type { Settings } from './settings.ts';
import type { Listener } from '../transports/transport.ts';
import { bareText, RpcError, rpcInfo } from '../base/errors.ts';
import type { Group } from '../membership/group.ts';
import type { Peer } from '../session/peer.ts';
import { sleep, within } from '../base/within.ts';
import { checkShutdown } from '../base/shutdown-options.ts';
import { openWork, watchSilence } from '../server/silence.ts';
import type { FaultInjector } from '../session/fault-injection.ts';
import type { ShutdownOptions } from '../base/rpc-agent.ts';
import { cancelUnread } from '../client/stream-reader.ts';

/** Between two looks at what is still going on. */
const LOOK_MS = 5;
/** The store and the last frames get this long when the deadline is over already. */
const LAST_MS = 1_000;
/** The same for the last frames of one that does not wait. */
const HASTY_MS = 100;

/** What of an agent its end needs. */
export interface Ending extends AgentParts {
  readonly collectives: Collectives;
  readonly settings: Settings;
  readonly listeners: readonly Listener[];
  readonly faults: FaultInjector;
  /** New calls are refused from now on, and the other members are told. */
  beginDraining(): void;
  /** Ends everything at once. */
  close(): void;
}

/** The one that collected is gone, or another one's turn has come: the rest meet there. */
const ELSEWHERE: ReadonlySet<string> = new Set(['peer-died', 'unavailable', 'not-found', 'draining']);

/**
 * The steps: everybody arrives; everybody is quiet, twice in a row with the same counts; extensions let go; everybody is done; the
 * view loses this worker; links and listeners close. Without `graceful`, the last two alone.
 */
export class Shutdown {
  private readonly agent: Ending;
  private readonly group: Group;
  private readonly graceful: boolean;
  private readonly onLeak: 'warn' | 'throw';
  private readonly timeoutMs: number;
  private readonly deadline: number;
  /** Leaves without waiting for the others. */
  private readonly alone: boolean;

  constructor(agent: Ending, group: Group, options: ShutdownOptions, alone = false) {
    this.agent = agent;
    this.group = group;
    const { graceful, onLeak, timeoutMs } = checkShutdown(options);
    this.graceful = graceful;
    this.onLeak = onLeak;
    this.timeoutMs = timeoutMs;
    this.deadline = this.timeoutMs === 0 ? Infinity : performance.now() + this.timeoutMs;
    this.alone = alone || agent.settings.size === undefined;
  }

  async run(): Promise<void> {
    let failure: unknown;
    let leaks: string[] = [];
    if (this.graceful && this.agent.refusal !== 'fenced') {
      try {
        await this.settleDown();
        leaks = this.agent.extensions.leaks();
      } catch (error) {
        failure = this.withLeaks(error, this.agent.extensions.leaks());
        this.agent.collectives.giveUp();
      }
    } else if (!this.graceful && this.agent.refusal !== 'fenced') {
      // Nobody was asked to let go, so this is all that is held right now.
      leaks = this.agent.extensions.leaks();
    }
    await this.end();
    if (failure !== undefined) throw failure;
    if (leaks.length > 0) this.report(leaks);
  }

  private async settleDown(): Promise<void> {
    if (this.alone) {
      // Nobody waits for the others: what is new has to go elsewhere, what runs is finished.
      this.agent.beginDraining();
      await this.quiet();
      await this.drain();
      await this.received();
      return;
    }
    this.agent.collectives.endWith(await this.meet('arrive', this.agent.incarnation));
    let before = -1;
    for (;;) {
      await this.quiet();
      const counts = await this.meet('quiet', this.agent.caller.sent + this.agent.dispatcher.handlers.handled);
      let sum = 0;
      for (const count of counts.values()) sum += count;
      if (sum === before) break;
      before = sum;
      if (performance.now() >= this.deadline) throw this.late('calls keep coming');
    }
    this.agent.faults.flush();
    await this.drain();
    this.agent.faults.flush();
    await this.received();
    await this.meet('done', 0);
  }

  /** Waits for all members that live, and those who come back meanwhile; what they bring. */
  private async meet(step: string, value: number): Promise<ReadonlyMap<string, number>> {
    const { agent } = this;
    const reasons = new Set<string>();
    for (;;) {
      const members = agent.members.reachable();
      const alone = new Map([[agent.name, value]]);
      if (members.length === 0) return alone;
      try {
        return await agent.collectives.gatherRest(step, value, this.left());
      } catch (error) {
        const { code } = rpcInfo(error) ?? {};
        // Whoever left or died is not waited for; a group that this worker no longer belongs to is no reason to stay.
        if (code === 'fenced') return alone;
        const text = error instanceof Error ? error.message : String(error);
        if (code === undefined || !ELSEWHERE.has(code)) throw this.late(text, error);
        reasons.add(bareText(code, text));
        if (performance.now() >= this.deadline)
          throw this.late(`nobody collects for the step '${step}': ${[...reasons].join('; ')}`, error);
        await sleep(LOOK_MS);
      }
    }
  }

  /**
   * Resolves when the others have what was sent to them. Nobody waits for what becomes of a one-way call, and it has to arrive all the same,
   * also where a link is only being made. Who cannot be reached is not waited for.
   */
  private async received(): Promise<void> {
    const { agent } = this;
    const behind = (): Peer | undefined =>
      agent.members.list().find(({ state, sender }) => state === 'open' && !sender.idle);
    const text = ({ worker }: Peer): string => `worker '${worker.name}' to receive what was sent to it`;
    const stop = watchSilence(agent.logger, (seconds) => {
      const peer = behind();
      return peer && `worker '${agent.name}' has waited ${seconds} s in shutdown() for ${text(peer)}`;
    });
    try {
      for (let peer = behind(); peer !== undefined; peer = behind()) {
        if (performance.now() >= this.deadline) throw this.late(`it waited for ${text(peer)}`);
        await sleep(LOOK_MS);
      }
    } finally {
      stop();
    }
  }

  /** Resolves when this worker waits for no answer and runs no handler. */
  private async quiet(): Promise<void> {
    const { agent } = this;
    const stop = watchSilence(
      agent.logger,
      (seconds) =>
        `worker '${agent.name}' has waited ${seconds} s in shutdown() for its calls to end: ${openWork(agent)}`,
    );
    try {
      for (;;) {
        if (agent.caller.calls.size > 0) cancelUnread(agent.caller.calls);
        if (agent.caller.calls.size === 0 && agent.dispatcher.handlers.active === 0) return;
        if (performance.now() >= this.deadline) throw this.late(openWork(agent));
        await sleep(LOOK_MS);
      }
    } finally {
      stop();
    }
  }

  private async drain(): Promise<void> {
    const left = this.left();
    const drained = this.agent.extensions.drain(left);
    const late = (): never => {
      throw this.late('references are not let go');
    };
    await (left === 0 ? drained : within(drained, left, late));
  }

  /** Says goodbye, leaves the view and closes everything. Whatever fails here, the agent is closed at the end. */
  private async end(): Promise<void> {
    const { agent } = this;
    agent.beginDraining();
    // The store may be gone: no step of the end waits for it longer than all of them may take.
    const most = this.graceful ? 5 * LAST_MS : LAST_MS;
    const until = performance.now() + Math.min(most, Math.max(LAST_MS, this.deadline - performance.now()));
    const left = (): number => Math.max(HASTY_MS, until - performance.now());
    // What was answered last has to be there before the others hear that this worker has left.
    await this.flushed(left());
    await atMost(this.group.leave(), left());
    agent.faults.flush();
    const bye = encodeProto(controlProto.Bye, { reason: 'shutdown' });
    for (const peer of agent.members.list()) if (peer.up) peer.sender.sendControl(MessageType.BYE, bye);
    await this.flushed(left());
    agent.close();
    await atMost(Promise.all(agent.listeners.map((listener) => listener.close())), left());
    await atMost(this.group.close(), left());
    if (agent.settings.storeOwned) await atMost(agent.settings.store.close(), left());
    forgetDefault(agent);
  }

  /** The last answers get out. */
  private async flushed(limit: number): Promise<void> {
    const until = performance.now() + Math.min(limit, this.graceful ? LAST_MS : HASTY_MS);
    const peers = this.agent.members.list().filter((peer) => peer.up);
    while (peers.some((peer) => peer.up && !peer.sender.idle) && performance.now() < until) await sleep(1);
  }

  /** What is still held may be why the time ran out. */
  private withLeaks(error: unknown, leaks: string[]): unknown {
    if (leaks.length === 0 || !(error instanceof RpcError)) return error;
    const { code, executed, peer, cause } = error;
    return new RpcError(code, `${error.message}\n${leakText(leaks)}`, { executed, peer, cause: cause ?? error });
  }

  private report(leaks: string[]): void {
    const text = leakText(leaks);
    if (this.onLeak === 'throw') throw new RpcError('failed-precondition', text);
    this.agent.logger.warn({ leaks: leaks.length }, text);
  }

  /** What is left of the time, for options: 0 = no limit. */
  private left(): number {
    return this.deadline === Infinity ? 0 : Math.max(1, this.deadline - performance.now());
  }

  private late(what: string, cause?: unknown): RpcError {
    return new RpcError('deadline-exceeded', `shutdown did not end in ${this.timeoutMs} ms: ${what}`, { cause });
  }
}

function leakText(leaks: readonly string[]): string {
  return `Leaking RRef: ${leaks.length} still held at shutdown:\n${leaks.slice(0, 20).join('\n')}`;
}

/** Waits for something that may fail, for a time. */
async function atMost(work: Promise<unknown>, ms: number): Promise<void> {
  const ignore = (): void => undefined;
  await within(work.catch(ignore), ms, ignore);
}
