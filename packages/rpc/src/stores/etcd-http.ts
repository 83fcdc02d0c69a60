/** @file HTTP as etcd's JSON interface needs it: connections that are kept, and a bound on what is asked at once. */
import type { Agent, IncomingMessage, request } from 'node:http';
import { attempt } from '../base/attempt.ts';
import { RpcError } from '../base/errors.ts';

/** Longer answers, and longer lines of a watch, are not read: some values with their base64. */
const MAX_ANSWER_CHARS = 64 * 1024 * 1024;
/** A connection that nobody uses is kept for so long, and so many of them are. */
const IDLE_MS = 4_000;
const MAX_IDLE = 16;
/**
 * Requests to one server that are under way. One that is asked a thousand things at once answers none of them in its time; the same in
 * turns takes no longer, since it writes as many together as there are while it waits for its disk.
 */
const MAX_UNDER_WAY = 32;

/** HTTP or HTTPS; neither is loaded before it is needed. */
interface Speaker {
  readonly request: typeof request;
  readonly agent: Agent;
}
const speakers = new Map<string, Promise<Speaker>>();

function speakerOf(protocol: string): Promise<Speaker> {
  const known = speakers.get(protocol);
  if (known !== undefined) return known;
  const options = { keepAlive: true, timeout: IDLE_MS, maxFreeSockets: MAX_IDLE };
  const made = (protocol === 'https:' ? import('node:https') : import('node:http')).then((http): Speaker => ({
    request: http.request,
    agent: new http.Agent(options),
  }));
  speakers.set(protocol, made);
  return made;
}

/** Posts `body` as JSON, with `more` headers. Resolves with the head of the answer; its body has to be read. Errors are those of sockets, with their `code`. */
export async function post(
  url: string,
  body: object,
  signal: AbortSignal,
  more: Readonly<Record<string, string>> = {},
): Promise<IncomingMessage> {
  const speaker = await speakerOf(new URL(url).protocol);
  const content = Buffer.from(JSON.stringify(body));
  const headers = { 'content-type': 'application/json', 'content-length': content.length, ...more };
  return new Promise((resolve, reject) => {
    const asked = speaker.request(url, { method: 'POST', agent: speaker.agent, headers, signal }, resolve);
    asked.on('error', reject);
    asked.end(content);
  });
}

/** What answers is no etcd: another service, or something that stands before it. */
export class OddAnswerError extends RpcError {}

/** The whole of an answer. @throws OddAnswerError for one that is too long, or is no object in JSON. */
export async function json(answer: IncomingMessage): Promise<Record<string, unknown>> {
  const parts: string[] = [];
  let chars = 0;
  answer.setEncoding('utf8');
  for await (const chunk of answer as AsyncIterable<string>) {
    parts.push(chunk);
    chars += chunk.length;
    if (chars > MAX_ANSWER_CHARS) throw odd(answer, `more than ${MAX_ANSWER_CHARS} characters`);
  }
  const value = attempt(() => JSON.parse(parts.join('')) as unknown);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw odd(answer, 'what is no object in JSON');
  return value as Record<string, unknown>;
}

function odd({ statusCode }: IncomingMessage, what: string): OddAnswerError {
  return new OddAnswerError(
    'unavailable',
    `it answers ${what}, with status ${statusCode ?? 0}: is that etcd's port for clients?`,
  );
}

/** The lines of an answer that goes on. @throws RpcError 'protocol-error' for one that is too long. */
export async function* lines(answer: IncomingMessage): AsyncGenerator<string> {
  // What has come of a line; joined at its end, so that a long one is not looked through with each piece of it.
  let parts: string[] = [];
  let chars = 0;
  answer.setEncoding('utf8');
  for await (const chunk of answer as AsyncIterable<string>) {
    const [first = '', ...others] = chunk.split('\n');
    parts.push(first);
    chars += first.length;
    for (const next of others) {
      const line = parts.join('');
      if (line.trim() !== '') yield line;
      parts = [next];
      chars = next.length;
    }
    if (chars > MAX_ANSWER_CHARS) throw new RpcError('protocol-error', 'a line of a watch is too long');
  }
}

/** Why a request that was given up while it waited for its turn has certainly not been made. */
export const NOT_ASKED = 'NOT_ASKED';

/** The line in which requests to one server stand. */
export class Turns {
  private underWay = 0;
  private readonly waiting = new Set<() => void>();

  /** Runs `ask` when it is its turn. @throws what `ask` does, and an error with the code NOT_ASKED when `signal` aborts before. */
  async take<T>(signal: AbortSignal, ask: () => Promise<T>): Promise<T> {
    if (this.underWay < MAX_UNDER_WAY) this.underWay++;
    else await this.turn(signal);
    try {
      if (signal.aborted) throw notAsked(signal);
      return await ask();
    } finally {
      const [next] = this.waiting;
      if (next === undefined) this.underWay--;
      else next();
    }
  }

  /** Resolves with the place of a request that is over. */
  private turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const take = (): void => {
        this.waiting.delete(take);
        signal.removeEventListener('abort', leave);
        resolve();
      };
      const leave = (): void => {
        this.waiting.delete(take);
        reject(notAsked(signal));
      };
      if (signal.aborted) return leave();
      this.waiting.add(take);
      signal.addEventListener('abort', leave, { once: true });
    });
  }
}

function notAsked({ reason }: AbortSignal): Error {
  const error = new Error('other requests to the server took all the time', { cause: reason });
  return Object.assign(error, { code: NOT_ASKED });
}
