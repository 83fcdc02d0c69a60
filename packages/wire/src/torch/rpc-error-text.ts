/** @file PyTorch's error strings: `RPCErr:<number>:<text>`, classified by searching for the prefix. */

/** The kinds of failure that PyTorch's errors know. */
export type RpcErrorType = 'unknown' | 'timeout' | 'intentional-failure';

const PREFIX = 'RPCErr';
const TYPES: readonly RpcErrorType[] = ['unknown', 'timeout', 'intentional-failure'];
/** Error codes of the agent that mean one of PyTorch's types. */
const CODES: ReadonlyMap<unknown, RpcErrorType> = new Map<unknown, RpcErrorType>([['deadline-exceeded', 'timeout']]);

/** The string form of an error of a type: `RPCErr:1:text` for a timeout. */
export function makeRpcError(text: string, type: RpcErrorType): string {
  return `${PREFIX}:${TYPES.indexOf(type)}:${text}`;
}

/**
 * The type of an error or error text: what the string form says, else what the `code` of the error or of one of its causes says, else
 * 'unknown'.
 */
export function getRpcErrorType(error: unknown): RpcErrorType {
  const text = typeof error === 'string' ? error : error instanceof Error ? error.message : '';
  const match = /RPCErr:(\d+):/.exec(text);
  if (match !== null) return TYPES[Number(match[1])] ?? 'unknown';
  // Bounded: a chain of causes that came from elsewhere may be a cycle.
  for (let e: unknown = error, i = 0; i < 8 && typeof e === 'object' && e !== null; i++) {
    const type = CODES.get((e as { code?: unknown }).code);
    if (type !== undefined) return type;
    e = (e as { cause?: unknown }).cause;
  }
  return text.includes('Send attempt failed intentionally') ? 'intentional-failure' : 'unknown';
}
