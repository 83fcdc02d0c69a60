/** @file Groups in one process whose calls are spans of the real OpenTelemetry SDK, kept in memory. */
import { context } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
  type ReadableSpan,
  type Sampler,
} from '@opentelemetry/sdk-trace-base';
import { afterEach } from 'vitest';
import { createAgent, type RpcAgent } from '@backwire/rpc';
import { openTelemetry } from '../src/opentelemetry.ts';

context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());

/** One time that was recorded: the metric, its attributes, and seconds. */
export interface Recorded {
  readonly metric: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly seconds: number;
}

export class Telemetry {
  readonly recorded: Recorded[] = [];
  readonly tracerProvider: BasicTracerProvider;
  private readonly exporter = new InMemorySpanExporter();

  constructor(sampler?: Sampler) {
    this.tracerProvider = new BasicTracerProvider({
      spanProcessors: [new SimpleSpanProcessor(this.exporter)],
      ...(sampler === undefined ? {} : { sampler }),
    });
  }

  /** A meter that keeps what it is told, so that a test sees each value. */
  readonly meterProvider = {
    getMeter: () => ({
      createHistogram: (metric: string) => ({
        record: (seconds: number, attributes: Recorded['attributes']) =>
          this.recorded.push({ metric, attributes, seconds }),
      }),
      createObservableGauge: () => ({ addCallback: () => undefined, removeCallback: () => undefined }),
    }),
  };

  /** The spans that have ended, in the order they did. */
  get ended(): readonly ReadableSpan[] {
    return this.exporter.getFinishedSpans();
  }
}

/** Starts groups for the tests of a file, which is named; they end after the test. */
export function useTelemetry(file: string): {
  group(count: number, telemetry: Telemetry, without?: readonly number[]): Promise<readonly RpcAgent[]>;
} {
  let agents: readonly RpcAgent[] = [];
  let groups = 0;
  afterEach(async () => {
    const ending = agents;
    agents = [];
    await Promise.all(ending.map((agent) => agent.shutdown({ graceful: false })));
  });
  return {
    group: async (worldSize, telemetry, without = []) => {
      const store = `memory://${file}-${++groups}`;
      const { tracerProvider, meterProvider } = telemetry;
      return (agents = await Promise.all(
        Array.from({ length: worldSize }, async (_, rank) =>
          createAgent({
            name: `w${rank}`,
            rank,
            worldSize,
            store,
            extensions: without.includes(rank) ? [] : [await openTelemetry({ tracerProvider, meterProvider })],
          }),
        ),
      ));
    },
  };
}
