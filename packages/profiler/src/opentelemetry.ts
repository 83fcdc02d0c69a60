/** @file Spans and metrics of calls for OpenTelemetry, by its semantic conventions for RPC; the trace goes with the call. */
import type * as Otel from '@opentelemetry/api';
import {
  RpcError,
  type Extension,
  type ExtensionSession,
  type Incoming,
  type Outgoing,
  type WorkerInfo,
} from '@backwire/rpc';
import {
  checkMethods,
  optionNames,
  refuseUnknown,
  errorName,
  incomingTrace,
  methodHandledHere,
  missingPackage,
  withTrace,
  type AgentMetrics,
  type CallObserver,
  type ExtensionHost,
  type Followed,
  type ObservedHandler,
} from '@backwire/rpc/internal';
import type { Message } from '@backwire/wire';
import { BUCKETS } from './metrics/call-histograms.ts';
import { OTHER, Outcomes, type Counted } from './metrics/outcomes.ts';
import { GAUGES } from './metrics/numbers.ts';
import { formatTrace, parseTrace } from './trace-context.ts';

/** What an adapter may be told; everything defaults to what the program registered with `@opentelemetry/api`. */
export interface OpenTelemetryOptions {
  /** A `TracerProvider`. The types here do without the package, as programs without it do. */
  tracerProvider?: { getTracer(name: string, version?: string): object };
  /** A `MeterProvider`. */
  meterProvider?: { getMeter(name: string, version?: string): object };
}

const OPTIONS = optionNames<OpenTelemetryOptions>()('tracerProvider meterProvider');

/** The name of the extension, and of its tracer and meter. */
const OPEN_TELEMETRY = 'opentelemetry';
const SCOPE = '@backwire/profiler';
/** `rpc.system.name`. */
const SYSTEM = 'backwire';

/**
 * The extension that tells OpenTelemetry of every call: a client span at the caller and a server span, its child, at the callee, in
 * whose context the handler runs; `rpc.client.call.duration` and `rpc.server.call.duration` in seconds. The trace context goes along as
 * W3C `traceparent` and `tracestate`, over any number of hops. Values are never attributes. Needs the package `@opentelemetry/api`,
 * which is an optional peer, loaded here and nowhere else.
 *
 * ```ts
 * await initRpc({ name: 'w0', extensions: [await openTelemetry()] });
 * ```
 *
 * @throws RpcError 'failed-precondition' when `@opentelemetry/api` is not installed; TypeError for what is no provider.
 */
export async function openTelemetry(options: OpenTelemetryOptions = {}): Promise<Extension> {
  refuseUnknown(options, OPTIONS, 'openTelemetry()');
  checkMethods(options.tracerProvider, ['getTracer'], 'tracerProvider', 'a TracerProvider');
  checkMethods(options.meterProvider, ['getMeter'], 'meterProvider', 'a MeterProvider');
  const api = await loadApi();
  return {
    name: OPEN_TELEMETRY,
    attach: (agent) => new TelemetrySession(agent as ExtensionHost, api, options),
  };
}

async function loadApi(): Promise<typeof Otel> {
  try {
    return await import('@opentelemetry/api');
  } catch (error) {
    throw missingPackage('openTelemetry()', '@opentelemetry/api', error);
  }
}

class TelemetrySession implements ExtensionSession {
  private readonly host: ExtensionHost;
  private readonly api: typeof Otel;
  private readonly tracer: Otel.Tracer;
  private readonly clientTime: Otel.Histogram;
  private readonly serverTime: Otel.Histogram;
  /** What the metrics of either side tell apart; spans say it all. */
  private readonly asked = new Outcomes();
  private readonly served = new Outcomes();
  private readonly unwatch: () => void;
  /** What ends the reading of each gauge. */
  private readonly gauges: (() => void)[] = [];
  /** The spans of handlers that are not over, and what says what they handle. */
  private readonly running = new Map<Otel.Span, () => string | undefined>();

  constructor(host: ExtensionHost, api: typeof Otel, options: OpenTelemetryOptions) {
    this.host = host;
    this.api = api;
    this.tracer = (options.tracerProvider ?? api.trace).getTracer(SCOPE) as Otel.Tracer;
    const meter = (options.meterProvider ?? api.metrics).getMeter(SCOPE) as Otel.Meter;
    const histogram = (name: string, description: string): Otel.Histogram =>
      meter.createHistogram(name, { description, unit: 's', advice: { explicitBucketBoundaries: [...BUCKETS] } });
    this.clientTime = histogram('rpc.client.call.duration', 'Measures the duration of an outgoing RPC.');
    this.serverTime = histogram('rpc.server.call.duration', 'Measures the duration of an incoming RPC.');
    const watching: CallObserver = { handled: (call, error) => this.handled(call, error) };
    this.unwatch = host.observers.add(watching);
    this.observe(meter);
  }

  /** Runs where the call is made: what is current there is the parent. */
  request(call: Outgoing): Followed {
    const { label } = call;
    if (label === undefined) return call;
    const { api } = this;
    const attributes = { ...this.attributes(call.to), 'rpc.method': label.name };
    const span = this.tracer.startSpan(label.name, { kind: api.SpanKind.CLIENT, attributes });
    const began = performance.now();
    const settled = ({ error }: { readonly error?: unknown }): void => {
      const counted = this.asked.of(label.name, error === undefined ? '' : errorName(error));
      this.clientTime.record((performance.now() - began) / 1000, { ...attributes, ...outcomeOf(counted) });
      this.end(span, error);
    };
    const context = formatTrace(span.spanContext());
    if (context === undefined || !this.host.extensionsOf(call.to).has(OPEN_TELEMETRY)) return { ...call, settled };
    try {
      // Here the arguments are encoded, which may not be possible.
      return { ...call, message: withTrace(call.message, context), settled };
    } catch (error) {
      settled({ error });
      throw error;
    }
  }

  /** Runs the handler in a span of its own, whose parent is the caller's. */
  async serve(call: Incoming, next: (call: Incoming) => Promise<Message>): Promise<Message> {
    const { api } = this;
    const remote = parseTrace(incomingTrace());
    const parent =
      remote === undefined ? api.ROOT_CONTEXT : api.trace.setSpanContext(api.ROOT_CONTEXT, traceOf(api, remote));
    // What is called is known once the call is unwrapped; spans take a name until they end.
    const attributes = this.servedAttributes(call.from);
    const span = this.tracer.startSpan('rpc', { kind: api.SpanKind.SERVER, attributes }, parent);
    this.running.set(span, methodHandledHere());
    try {
      const reply = await api.context.with(api.trace.setSpan(parent, span), () => next(call));
      this.handlerOver(span, undefined);
      return reply;
    } catch (error) {
      this.handlerOver(span, error);
      throw error;
    }
  }

  /** Handlers that are still running, some of them for good, are not followed beyond the agent's end. */
  close(): void {
    this.unwatch();
    for (const stop of this.gauges) stop();
    for (const span of [...this.running.keys()])
      this.handlerOver(span, new RpcError('unavailable', `worker '${this.host.self.name}' has shut down`));
  }

  private handlerOver(span: Otel.Span, error: unknown): void {
    const method = this.running.get(span)?.();
    if (!this.running.delete(span)) return;
    if (method !== undefined) {
      span.updateName(method);
      span.setAttribute('rpc.method', method);
    }
    this.end(span, error);
  }

  private handled(call: ObservedHandler, error: unknown): void {
    const counted = this.served.of(call.definition?.name ?? OTHER, error === undefined ? '' : errorName(error));
    const attributes = { ...this.servedAttributes(call.peer.worker), ...outcomeOf(counted) };
    this.serverTime.record((performance.now() - call.arrivedAt) / 1000, attributes);
  }

  /** Our own numbers, read when somebody collects; there may be several agents in a process. */
  private observe(meter: Otel.Meter): void {
    const whose = { 'backwire.worker': this.host.self.name, 'backwire.group': this.host.group };
    for (const { name, unit, description, read } of GAUGES) {
      const gauge = meter.createObservableGauge(name, { unit, description });
      const callback = (result: Otel.ObservableResult): void =>
        result.observe(read(this.host.metrics() as AgentMetrics), whose);
      gauge.addCallback(callback);
      this.gauges.push(() => gauge.removeCallback(callback));
    }
  }

  /** Of a call that `server` handles. */
  private attributes(server: WorkerInfo): Otel.Attributes {
    return { 'rpc.system.name': SYSTEM, 'server.address': server.name };
  }

  /** Of a call that `client` makes here. */
  private servedAttributes(client: WorkerInfo): Otel.Attributes {
    return { ...this.attributes(this.host.self), 'client.address': client.name };
  }

  private end(span: Otel.Span, error: unknown): void {
    if (error !== undefined) {
      span.setAttribute('error.type', errorName(error));
      span.setStatus({ code: this.api.SpanStatusCode.ERROR });
    }
    span.end();
  }
}

/** The attributes in which calls of one function from here to there differ in a metric. */
function outcomeOf({ method, error }: Counted): Otel.Attributes {
  return { 'rpc.method': method, ...(error === '' ? {} : { 'error.type': error }) };
}

function traceOf(
  api: typeof Otel,
  { traceId, spanId, flags, state }: NonNullable<ReturnType<typeof parseTrace>>,
): Otel.SpanContext {
  const traceState = state === '' ? {} : { traceState: api.createTraceState(state) };
  return { traceId, spanId, traceFlags: flags, isRemote: true, ...traceState };
}
