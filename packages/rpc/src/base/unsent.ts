/** @file Values that cannot travel, in words: whose arguments or result, for whom, which limit of which worker, and what to do. */
import { DisposedError } from '@backwire/tensor';
import { WireError } from '@backwire/wire/internal';
import { RpcError, type Executed } from './errors.ts';
import type { Limits } from './options.ts';
import { system } from './system-error.ts';
import type { WorkerInfo } from './worker-info.ts';

/** A peer, as far as errors name it. */
interface HasWorker {
  readonly worker: WorkerInfo;
}

/** The options of an agent behind the limits of its messages, by what an error calls them. */
const OPTIONS: Readonly<Record<string, keyof Limits>> = {
  values: 'maxValues',
  string: 'maxStringBytes',
  depth: 'maxDepth',
  frame: 'maxFrameBytes',
  payload: 'maxFrameBytes',
  message: 'maxMessageBytes',
  storage: 'maxMessageBytes',
};

/** What no option changes, since the protocol counts it so: what to do instead. By what an error calls it. */
const FIXED: readonly (readonly [RegExp, (value: number | string, limit: number, place: string) => string])[] = [
  [
    /^(tensors|storages)/,
    (value, limit) => `${value} tensors, and a message holds at most ${limit}: stack them, or make several calls`,
  ],
  [
    /^header entries/,
    (value, limit) => `${value} references, and a message holds at most ${limit}: make several calls`,
  ],
  [/^bigint/, (_value, limit, place) => `a bigint${place} of more than ${limit} bits: give it as text or bytes`],
  [
    /^key/,
    (value, limit, place) =>
      `a key${place} of ${value} bytes, and one has at most ${limit}: make it a value, or use a Map`,
  ],
];

/** '1000001 values at $[0], and limits.maxValues of worker 'w0' is 1000000' of a broken limit; the error's own text otherwise. */
function limitText(error: WireError, self: WorkerInfo): string {
  if (error.code !== 'limit' || error.limit === undefined) return error.message;
  const [kind = '', ...place] = error.what.split(' ');
  const option = OPTIONS[kind];
  if (option === undefined) {
    const fixed = FIXED.find(([what]) => what.test(error.what))?.[1];
    const at = / at \$.*$/.exec(error.what)?.[0] ?? '';
    return fixed?.(error.value ?? '?', error.limit, at) ?? error.message;
  }
  const where = place.length === 0 ? '' : ` ${place.join(' ')}`;
  const most = `limits.${option} of worker '${self.name}' is ${error.limit}`;
  return kind === 'values'
    ? `${error.value ?? '?'} values${where}, and ${most}`
    : `${kind}${where} of ${error.value ?? '?'}${kind === 'depth' ? '' : ' bytes'}, and ${most}`;
}

/** What was to be sent. */
export interface Unsent {
  /** 'the arguments', 'the result'. */
  readonly what: string;
  /** The function. */
  readonly name: string;
  readonly to: WorkerInfo;
  readonly self: WorkerInfo;
  readonly executed: Executed;
}

/**
 * The error of a value that could not be written: RpcError 'resource-exhausted' for a limit, TypeError for what cannot travel, both saying
 * what it was; DisposedError likewise. Anything else as it is.
 */
export function unsent(error: unknown, { what, name, to, self, executed }: Unsent): unknown {
  if (error instanceof WireError && error.code === 'limit') {
    const text = `${what} of '${name}' for worker '${to.name}' cannot be sent: ${limitText(error, self)}`;
    return system(new RpcError('resource-exhausted', text, { executed, retryable: false, peer: to, cause: error }));
  }
  if (error instanceof TypeError && error.message.startsWith('cannot send '))
    return new TypeError(`${what} of '${name}' for worker '${to.name}': ${error.message}`, { cause: error });
  if (error instanceof DisposedError)
    return new DisposedError(`${what} of '${name}' for worker '${to.name}': ${error.message}`, { cause: error });
  return error;
}

/** What is known of a message that could not be understood. */
interface About {
  readonly executed?: 'no' | 'yes';
  /** Who could not. */
  readonly self?: WorkerInfo;
  readonly what?: 'arguments' | 'result';
  /** The function. */
  readonly name?: string | undefined;
}

/** The error of a message that could not be understood. */
export function decodeFailed(error: unknown, peer: HasWorker, about: About = {}): RpcError {
  const { executed = 'no', self, what, name } = about;
  const wire = error instanceof WireError ? error : undefined;
  const text =
    wire !== undefined && self !== undefined
      ? limitText(wire, self)
      : error instanceof Error
        ? error.message
        : String(error);
  const of = name === undefined ? '' : ` of '${name}'`;
  const whose =
    what === undefined
      ? `a message of worker '${peer.worker.name}'`
      : `the ${what}${of} from worker '${peer.worker.name}'`;
  const code = wire?.code === 'limit' ? 'resource-exhausted' : 'decode-error';
  const cause = wire?.cause ?? error;
  return new RpcError(code, `${whose}: ${text}`, {
    executed,
    // The same message would be too large, or malformed, another time too.
    retryable: false,
    peer: peer.worker,
    cause,
  });
}
