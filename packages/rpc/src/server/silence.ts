/** @file Waits that last: after ten seconds a line says who waits for whom, and for which function. */
import { runAtRoot } from '@backwire/tensor/internal';
import { SILENCE_AGAIN_MS, SILENCE_MS } from '../base/limits.ts';
import { listText, namesText } from '../base/names-text.ts';
import type { Logger } from '../base/options.ts';
import { unref } from '../base/platform.ts';

/**
 * Warns when a wait has lasted `SILENCE_MS`, and again from time to time, until the returned function is called. `describe` says what is
 * waited for; undefined for nothing to say. A description that fails is none.
 */
export function watchSilence(
  logger: Logger,
  describe: (seconds: number) => string | undefined | Promise<string | undefined>,
): () => void {
  const began = performance.now();
  let timer: NodeJS.Timeout | undefined;
  let over = false;
  const say = async (): Promise<void> => {
    const text = await describe(Math.round((performance.now() - began) / 1_000));
    if (!over && text !== undefined) logger.warn({}, text);
  };
  const arm = (ms: number): void => {
    timer = runAtRoot(() =>
      setTimeout(() => {
        say().catch(() => undefined);
        if (!over) arm(SILENCE_AGAIN_MS);
      }, ms),
    );
    unref(timer);
  };
  arm(SILENCE_MS);
  return () => {
    over = true;
    clearTimeout(timer);
  };
}

/** What is asked of an agent. */
interface Busy {
  now(): number;
  /** Calls that wait for an answer. */
  readonly caller: {
    readonly calls: { ids(which: () => boolean): readonly number[]; get(id: number): OutgoingCall | undefined };
  };
  readonly dispatcher: { readonly handlers: { readonly active: number }; readonly open: Iterable<CallsOfPeer> };
}
interface OutgoingCall {
  readonly label: { readonly name: string };
  readonly peer: { readonly worker: { readonly name: string } };
  readonly startedAt: number;
}
interface CallsOfPeer {
  readonly peer: { readonly worker: { readonly name: string } };
  readonly open: ReadonlyMap<number, RunningCall>;
}
interface RunningCall {
  readonly counted: boolean;
  readonly definition: { readonly name: string } | undefined;
  readonly arrivedAt: number;
  readonly aborted: boolean;
}

/** What an agent still has to do, in words: its calls without an answer, and the handlers that run; '' when there is nothing. */
export function openWork(agent: Busy): string {
  const now = agent.now();
  const waiting = agent.caller.calls
    .ids(() => true)
    .flatMap((id) => {
      const call = agent.caller.calls.get(id);
      return call === undefined
        ? []
        : [`'${call.label.name}' on worker '${call.peer.worker.name}'${age(now - call.startedAt)}`];
    });
  const running = [...agent.dispatcher.open].flatMap(({ peer, open }) =>
    [...open.values()]
      .filter(({ counted }) => counted)
      .map(({ definition, arrivedAt, aborted }) => {
        const ignored = aborted ? ', which was cancelled and does not heed its signal' : '';
        return `'${definition?.name ?? ''}' for worker '${peer.worker.name}'${age(now - arrivedAt)}${ignored}`;
      }),
  );
  const handlers = Math.max(agent.dispatcher.handlers.active, running.length);
  const parts = [
    waiting.length === 0
      ? ''
      : `${plural(waiting.length, 'call waits', 'calls wait')} for an answer (${listText(waiting)})`,
    handlers === 0
      ? ''
      : `${plural(handlers, 'handler still runs', 'handlers still run')} here${running.length === 0 ? '' : ` (${listText(running)})`}`,
  ];
  return parts.filter((part) => part !== '').join(', and ');
}

/** "worker 'a'", "workers 'a', 'b'". */
export function workersText(names: readonly string[]): string {
  return `${names.length === 1 ? 'worker' : 'workers'} ${namesText(names)}`;
}

function plural(count: number, one: string, many: string): string {
  return `${count} ${count === 1 ? one : many}`;
}

function age(ms: number): string {
  return `, ${(ms / 1_000).toFixed(1)} s`;
}
