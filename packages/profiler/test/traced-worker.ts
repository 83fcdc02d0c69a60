/** @file A worker with the real OpenTelemetry SDK: prints its spans and metrics as JSON when the job is done. */
import { context, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { barrier, initRpc, rpcFunction, rpcStream, rpcSync, shutdown } from '@backwire/rpc';
import { openTelemetry } from '../src/opentelemetry.ts';

const spans = new InMemorySpanExporter();
const numbers = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
const reader = new PeriodicExportingMetricReader({ exporter: numbers, exportIntervalMillis: 3_600_000 });
const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
const meterProvider = new MeterProvider({ readers: [reader] });
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
trace.setGlobalTracerProvider(tracerProvider);

const rank = Number(process.env['RANK']);
const tracer = trace.getTracer('job');
const halve = rpcFunction('traced/halve', (x: number) =>
  // What a handler does is inside of its span.
  tracer.startActiveSpan('work', async (span) => {
    await new Promise((done) => setTimeout(done, 5));
    span.end();
    return x / 2;
  }),
);
const relay = rpcFunction('traced/relay', (x: number) => rpcSync('w0', halve, [x]));
const refuse = rpcFunction('traced/refuse', (_secret: string): number => {
  throw new RangeError('with a secret in it');
});
const count = rpcFunction('traced/count', async function* (n: number) {
  for (let i = 0; i < n; i++) yield i;
});

await initRpc({ name: `w${rank}`, extensions: [await openTelemetry({ meterProvider })] });
if (rank === 0) {
  await tracer.startActiveSpan('request', async (span) => {
    const half = await rpcSync('w1', relay, [42]);
    if (half !== 21) throw new Error(`wrong answer: ${half}`);
    await rpcSync('w1', refuse, ['hunter2']).catch(() => span.setStatus({ code: SpanStatusCode.OK }));
    const items: number[] = [];
    for await (const item of rpcStream('w1', count, [3])) items.push(item);
    if (items.join() !== '0,1,2') throw new Error(`wrong items: ${items.join()}`);
    span.end();
  });
}
await barrier();
await reader.forceFlush();
const shown = {
  spans: spans.getFinishedSpans().map((span) => ({
    name: span.name,
    kind: span.kind,
    traceId: span.spanContext().traceId,
    spanId: span.spanContext().spanId,
    parent: span.parentSpanContext?.spanId,
    parentIsRemote: span.parentSpanContext?.isRemote,
    attributes: span.attributes,
    status: span.status,
  })),
  metrics: numbers
    .getMetrics()
    .flatMap(({ scopeMetrics }) => scopeMetrics)
    .flatMap(({ metrics }) => metrics)
    .map(({ descriptor, dataPoints }) => ({
      name: descriptor.name,
      unit: descriptor.unit,
      points: dataPoints.map(({ attributes, value }) => ({ attributes, value })),
    })),
};
console.log(`shown ${JSON.stringify(shown)}`);
await shutdown();
