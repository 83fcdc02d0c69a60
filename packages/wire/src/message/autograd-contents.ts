/** @file The commands of distributed autograd in the payloads of their messages. */
import { type Tensor } from '@backwire/tensor';
import * as codec from './autograd-codec.ts';
import { fromContext, given, isEmpty, joinId, localOf, toContext, workerOf } from './command-ids.ts';
import { type CommandBody, type Of } from './command-body.ts';
import { type FunctionId, type GradientsOf, type WireFailure } from './commands.ts';
import { readWrappedPayload, writeWrappedPayload } from '../torch/wrapped.ts';

const NO_PASS = { worker: 0, incarnation: 0, number: 0 };

const wrap: CommandBody = {
  write(command, tensors, wrapInner) {
    const { wrapped, contextId, incarnation, messageId, fromWorkerId, deviceMap, ...rest } =
      command as unknown as Of<'forward-autograd-req'>;
    const inner = wrapInner(wrapped);
    tensors.push(...inner.tensors);
    const named = fromWorkerId !== undefined || deviceMap !== undefined || workerOf(messageId) !== 0;
    const metadata: codec.WrapMetadata = {
      type: inner.type,
      context: toContext(contextId, incarnation),
      oldest: rest.oldestLive ?? 0,
      message: localOf(messageId),
      path: rest.path ?? [],
      graph: rest.graph ?? false,
      reach: rest.reach?.map(toFunction),
      failed: isEmpty(rest.failedPasses) ? undefined : rest.failedPasses?.map(toPass),
      sender: named
        ? {
            messageWorker: workerOf(messageId),
            worker: fromWorkerId ?? 0,
            deviceMap: Object.entries(deviceMap ?? {}),
          }
        : undefined,
    };
    return writeWrappedPayload(inner.payload, codec.encodeWrap(metadata));
  },
  read(message, unwrap) {
    const { payload, extra } = readWrappedPayload(message.payload);
    const { type, context, oldest, message: local, path, graph, reach, failed, sender } = codec.decodeWrap(extra);
    return {
      ...fromContext(context),
      messageId: joinId(sender?.messageWorker ?? 0, local),
      ...(sender === undefined ? {} : { fromWorkerId: sender.worker, deviceMap: mapOf(sender.deviceMap) }),
      ...given({ oldestLive: oldest, graph, path }),
      ...(reach === undefined ? {} : { reach: reach.map(fromFunction) }),
      ...given({ failedPasses: failed?.map(fromPass) }),
      wrapped: unwrap({ ...message, type, payload }),
    };
  },
};

const backward: CommandBody = {
  write(command, tensors) {
    const { messageId, gradients, ...start } = command as unknown as Of<'backward-autograd-req'>;
    const worker = workerOf(messageId);
    return codec.encodeBackward({
      ...toStart(start),
      ...toReturned({ messageId, gradients }, tensors),
      ...(worker === 0 ? {} : { messageWorker: worker }),
    });
  },
  read({ payload, tensors }) {
    const { message, present, messageWorker, ...start } = codec.decodeBackward(payload, tensors.length);
    const { gradients } = fromReturned({ message, present }, tensors[Symbol.iterator]());
    return { ...fromStart(start), messageId: joinId(messageWorker ?? 0, message), gradients };
  },
};

const discover: CommandBody = {
  write(command) {
    const { messageIds, ...start } = command as unknown as Of<'autograd-discover-req'>;
    return codec.encodeDiscover({ ...toStart(start), messages: messageIds.map(localOf) });
  },
  read({ payload }) {
    const { messages, ...start } = codec.decodeDiscover(payload);
    return { ...fromStart(start), messageIds: messages.map((local) => BigInt(local)) };
  },
};

/** What became of a message of a pass. */
const outcome: CommandBody = {
  write(command, tensors) {
    const { failure, returned = [] } = command as unknown as Of<'backward-autograd-resp'>;
    const back = returned.map((one) => toReturned(one, tensors));
    return codec.encodeOutcome(failure === undefined ? undefined : toFailure(failure), back);
  },
  read({ payload, tensors }) {
    const { failure, back } = codec.decodeOutcome(payload, tensors.length);
    const left = tensors[Symbol.iterator]();
    return given({ failure: failure && fromFailure(failure), returned: back.map((one) => fromReturned(one, left)) });
  },
};

const abort: CommandBody = {
  write(command) {
    const { contextId, incarnation, pass = NO_PASS, failure } = command as unknown as Of<'autograd-abort'>;
    const context = toContext(contextId, incarnation);
    return codec.encodeAbort({ context, pass: toPass(pass), failure: toFailure(failure) });
  },
  read({ payload }) {
    const { context, pass, failure } = codec.decodeAbort(payload);
    return { ...fromContext(context), ...passOf(pass), failure: fromFailure(failure) };
  },
};

const ended: CommandBody = {
  write(command) {
    const { contextId, incarnation, oldestLive } = command as unknown as Of<'cleanup-autograd-context-req'>;
    return codec.encodeContextMessage({ context: toContext(contextId, incarnation), oldest: oldestLive ?? 0 });
  },
  read({ payload }) {
    const { context, oldest } = codec.decodeContextMessage(payload);
    return { ...fromContext(context), ...given({ oldestLive: oldest }) };
  },
};

export const AUTOGRAD_CONTENTS = {
  'forward-autograd-req': wrap,
  'forward-autograd-resp': wrap,
  'backward-autograd-req': backward,
  'backward-autograd-resp': outcome,
  'autograd-discover-req': discover,
  'autograd-discover-resp': outcome,
  'autograd-abort': abort,
  'cleanup-autograd-context-req': ended,
  'autograd-adopt-req': ended,
} as const;

type Start = Omit<Of<'backward-autograd-req'>, 'kind' | 'messageId' | 'gradients'>;
type Head = Pick<codec.DiscoverMessage, 'context' | 'pass' | 'options'>;

function toStart({ contextId, incarnation, pass = NO_PASS, ...flags }: Start): Head {
  const { retainGraph, fast = false, failed = [], plan } = flags;
  return {
    context: toContext(contextId, incarnation),
    pass: toPass(pass),
    options: { retainGraph, fast, failed, plan: plan?.map(toFunction) },
  };
}

function fromStart({ context, pass, options }: Head): Start {
  const { retainGraph, fast, failed, plan } = options;
  return {
    ...fromContext(context),
    ...passOf(pass),
    retainGraph,
    ...given({ fast, failed }),
    ...(plan === undefined ? {} : { plan: plan.map(fromFunction) }),
  };
}

function passOf(pass: codec.PassRef): Pick<Start, 'pass'> {
  const { worker, incarnation, n } = pass;
  return worker === 0 && incarnation === 0 && n === 0 ? {} : { pass: fromPass(pass) };
}

function toPass({ worker, incarnation, number: n }: typeof NO_PASS): codec.PassRef {
  return { worker, incarnation, n };
}

function fromPass({ worker, incarnation, n }: codec.PassRef): typeof NO_PASS {
  return { worker, incarnation, number: n };
}

function toReturned({ messageId, gradients }: GradientsOf, tensors: Tensor[]): codec.Returned {
  for (const gradient of gradients) if (gradient !== null) tensors.push(gradient);
  return { message: localOf(messageId), present: gradients.map((gradient) => gradient !== null) };
}

function fromReturned({ message, present }: codec.Returned, tensors: Iterator<Tensor>): GradientsOf {
  const gradients = present.map((there) => (there ? (tensors.next().value as Tensor) : null));
  return { messageId: BigInt(message), gradients };
}

function toFunction({ worker, messageId }: FunctionId): codec.FunctionRef {
  return { to: worker, message: localOf(messageId) };
}

function fromFunction({ to, message }: codec.FunctionRef): FunctionId {
  return { worker: to, messageId: BigInt(message) };
}

function toFailure({ message, ...rest }: WireFailure): codec.PassFailure {
  return { ...rest, text: message };
}

function fromFailure({ code, name, text, peer }: codec.PassFailure): WireFailure {
  return { code, name, message: text, ...(peer === undefined ? {} : { peer }) };
}

/** Without a prototype: its keys come from elsewhere. */
function mapOf(entries: codec.SenderMetadata['deviceMap']): Readonly<Record<string, string>> {
  const map = Object.create(null) as Record<string, string>;
  for (const [from, to] of entries) map[from] = to;
  return map;
}
