/** @file The message types: PyTorch's numbers, and ours from 0x40 on. */

/** A message type: low byte = serial number, plus `REQUEST` or `RESPONSE`. */
export type MessageType = number;

/** Flag of a message that is answered, or sent one way as control. */
const REQUEST = 0x100;
/** Flag of an answer. */
const RESPONSE = 0x200;

/** The 26 types of torch.distributed.rpc under their own numbers, then those this protocol adds (serial numbers 0x40 and up). */
export const MessageType = {
  SCRIPT_CALL: 0x100,
  SCRIPT_RET: 0x201,
  PYTHON_CALL: 0x102,
  PYTHON_RET: 0x203,
  SCRIPT_REMOTE_CALL: 0x104,
  PYTHON_REMOTE_CALL: 0x105,
  REMOTE_RET: 0x206,
  SCRIPT_RREF_FETCH_CALL: 0x107,
  PYTHON_RREF_FETCH_CALL: 0x108,
  SCRIPT_RREF_FETCH_RET: 0x209,
  PYTHON_RREF_FETCH_RET: 0x20a,
  RREF_USER_DELETE: 0x10b,
  RREF_FORK_REQUEST: 0x10c,
  RREF_CHILD_ACCEPT: 0x10d,
  RREF_ACK: 0x20e,
  FORWARD_AUTOGRAD_REQ: 0x10f,
  FORWARD_AUTOGRAD_RESP: 0x210,
  BACKWARD_AUTOGRAD_REQ: 0x111,
  BACKWARD_AUTOGRAD_RESP: 0x212,
  CLEANUP_AUTOGRAD_CONTEXT_REQ: 0x113,
  CLEANUP_AUTOGRAD_CONTEXT_RESP: 0x214,
  RUN_WITH_PROFILING_REQ: 0x115,
  RUN_WITH_PROFILING_RESP: 0x216,
  RREF_BACKWARD_REQ: 0x117,
  RREF_BACKWARD_RESP: 0x218,
  EXCEPTION: 0x237,
  UNKNOWN: 0x3c,

  /** One way: the creation of an RRef never ran on its owner. */
  RREF_CREATE_FAILED: 0x140,
  /** Which send functions the roots of a backward pass reach. */
  AUTOGRAD_DISCOVER_REQ: 0x141,
  AUTOGRAD_DISCOVER_RESP: 0x242,
  /** One way: a backward pass failed; everybody in it cleans up. */
  AUTOGRAD_ABORT: 0x143,
  /** One way, to a context's creator: this worker takes part, although who brought it in died. */
  AUTOGRAD_ADOPT_REQ: 0x144,
  /** One way: the view of this epoch removed a member. */
  FENCE: 0x146,
  /** One way, FENCE's answer: nothing of the member that died is in flight here any more. */
  FENCE_ACK: 0x14c,
  /** One way: every member has answered the fence. */
  FENCE_DONE: 0x147,
  /** One way: no calls after the given one will be run. */
  DRAIN: 0x149,
  /** One way: the sender leaves in good order. */
  BYE: 0x14a,
  /** One way: what a member knows of the others, while somebody is in doubt. */
  REPORT: 0x14d,
} as const;

export type MessageTypeName = keyof typeof MessageType;

const names: ReadonlyMap<number, MessageTypeName> = new Map(
  (Object.entries(MessageType) as [MessageTypeName, number][]).map(([name, value]) => [value, name]),
);

/** The name of a type, or its number in hexadecimal when it is not in the table. */
export function messageTypeName(type: MessageType): string {
  return names.get(type) ?? `0x${type.toString(16)}`;
}

/** The type with this name, or undefined. */
export function messageTypeOf(name: string): MessageType | undefined {
  return Object.hasOwn(MessageType, name) ? MessageType[name as MessageTypeName] : undefined;
}

/** Whether the table has this type. */
export function isKnownMessageType(type: number): boolean {
  return names.has(type);
}

/** Whether messages of this type ask for something (or tell it, one way). */
export function isRequest(type: MessageType): boolean {
  return (type & REQUEST) !== 0;
}

/** Whether messages of this type answer a request. */
export function isResponse(type: MessageType): boolean {
  return (type & RESPONSE) !== 0;
}
