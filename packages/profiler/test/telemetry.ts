/** @file What a group of one process tells OpenTelemetry, by the real SDK, kept in memory. */
import { context } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
  type ReadableSpan,
  type Sampler,
} from '@opentelemetry/sdk-trace-base';
import { createAgent, type RpcAgent } from '@backwire/rpc';
import { openTelemetry } from '../src/opentelemetry.ts';

context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());

/** One time that was recorded. */
export interface Recorded {
  readonly metric: string;
  readonly attributes: Readonly<Record<string, unknown>>;
}

/** A span as a test compares it. */
export interface Shown {
  readonly name: string;
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  readonly parent: string | undefined;
  readonly method: unknown;
  readonly error: unknown;
  readonly failed: boolean;
}

export class Telemetry {
  readonly recorded: Recorded[] = [];
  /** Gauges that are read when somebody collects. */
  readonly gauges = new Set<(result: { observe(value: number, attributes?: object): void }) => void>();
  readonly tracerProvider: BasicTracerProvider;
  private readonly exporter = new InMemorySpanExporter();
  private begun = 0;

  constructor(sampler?: Sampler) {
    const counting = {
      onStart: () => void this.begun++,
      onEnd: () => undefined,
      shutdown: () => Promise.resolve(),
      forceFlush: () => Promise.resolve(),
    };
    this.tracerProvider = new BasicTracerProvider({
      spanProcessors: [new SimpleSpanProcessor(this.exporter), counting],
      ...(sampler === undefined ? {} : { sampler }),
    });
  }

  /** A meter that keeps what it is told. */
  readonly meterProvider = {
    getMeter: () => ({
      createHistogram: (metric: string) => ({
        record: (_seconds: number, attributes: Recorded['attributes']) => this.recorded.push({ metric, attributes }),
      }),
      createObservableGauge: () => ({
        addCallback: (callback: never) => this.gauges.add(callback),
        removeCallback: (callback: never) => this.gauges.delete(callback),
      }),
    }),
  };

  /** Spans that have begun and not ended. */
  get open(): number {
    return this.begun - this.exporter.getFinishedSpans().length;
  }

  /** Spans that have ended, in the order they did. */
  get ended(): readonly Shown[] {
    return this.exporter.getFinishedSpans().map(shown);
  }

  /** Forgets what was told so far, when every span has ended. */
  forget(): void {
    this.exporter.reset();
    this.begun = 0;
    this.recorded.length = 0;
  }

  /** Starts agents `w0`, `w1`, … that tell of their calls here. */
  async group(worldSize: number, store: string): Promise<readonly RpcAgent[]> {
    const { tracerProvider, meterProvider } = this;
    const start = async (rank: number): Promise<RpcAgent> => {
      const extensions = [await openTelemetry({ tracerProvider, meterProvider })];
      return createAgent({ name: `w${rank}`, rank, worldSize, store, maxConcurrentCalls: 2, extensions });
    };
    return Promise.all(Array.from({ length: worldSize }, (_, rank) => start(rank)));
  }
}

function shown(span: ReadableSpan): Shown {
  const { name, kind, parentSpanContext, attributes, status } = span;
  const { traceId, spanId } = span.spanContext();
  return {
    name,
    kind,
    traceId,
    spanId,
    parent: parentSpanContext?.spanId,
    method: attributes['rpc.method'],
    error: attributes['error.type'],
    failed: Number(status.code) === 2,
  };
}
