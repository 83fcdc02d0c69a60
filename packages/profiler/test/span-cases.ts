/** @file Calls that end in all the ways calls end: prints, as JSON, what each of them told OpenTelemetry. */
import { setTimeout as delay } from 'node:timers/promises';
import { AlwaysOffSampler, ParentBasedSampler } from '@opentelemetry/sdk-trace-base';
import { remoteFunction, rpcAsync, rpcFunction, rpcOneway, rpcStream, rpcSync, type RpcAgent } from '@backwire/rpc';
import { Telemetry, type Recorded, type Shown } from './telemetry.ts';

/** What one case told. */
export interface Told {
  readonly spans: readonly Shown[];
  readonly open: number;
  readonly recorded: readonly Recorded[];
  /** What is left when the agents have ended: spans that are open, and gauges that are read. */
  readonly left: { readonly open: number; readonly gauges: number };
  /** Spans that ended with the agents. */
  readonly late: readonly Shown[];
  readonly note?: unknown;
}

let telemetry: Telemetry;
const within = <T>(name: string, fn: () => T): T =>
  telemetry.tracerProvider.getTracer('cases').startActiveSpan(name, (span) => {
    try {
      return fn();
    } finally {
      span.end();
    }
  });

const work = rpcFunction('cases/work', async (tag: string, ms: number) => {
  within(`before ${tag}`, () => undefined);
  await delay(ms);
  within(`after ${tag}`, () => undefined);
});
const ready = rpcFunction('cases/ready', () => undefined);
const throwsOwn = rpcFunction('cases/throwsOwn', (name: string): void => {
  throw new ({ [name]: class extends Error {} }[name] as ErrorConstructor)('sesame');
});
const count = rpcFunction('cases/count', function* (n: number) {
  for (let i = 0; i < n; i++) yield within('item', () => i);
});
const never = rpcFunction('cases/never', () => new Promise<void>(() => undefined));
const unsendable = (() => 1) as never;

const CASES: Readonly<Record<string, (agents: readonly RpcAgent[]) => Promise<unknown>>> = {
  'arguments that cannot be sent': () => rpcSync('w1', work, [unsendable, 1]),
  'a one-way call that cannot be sent': () => Promise.resolve(rpcOneway('w1', work, [unsendable, 1])),
  'a one-way call': async () => {
    rpcOneway('w1', work, ['x', 1]);
    await rpcSync('w1', work, ['behind it', 1]);
  },
  'a function that is not there': () => rpcSync('w1', remoteFunction('cases/none'), []),
  'a time limit': () => rpcSync('w1', work, ['x', 300], { timeoutMs: 100 }),
  'classes of errors': async () => {
    for (let i = 0; i < 40; i++) await rpcSync('w1', throwsOwn, [`Own${i}`]).catch(() => undefined);
  },
  'a long stream': async () => {
    let n = 0;
    for await (const _ of rpcStream('w1', count, [400])) if (n++ % 40 === 0) await delay(2);
    return n;
  },
  'more calls than slots': () =>
    Promise.all(Array.from({ length: 9 }, (_, i) => within(`root ${i}`, () => rpcAsync('w1', work, [String(i), 3])))),
  'a callee that dies': async ([, callee]) => {
    const call = rpcSync('w1', never, []);
    call.catch(() => undefined);
    await delay(100);
    await callee?.shutdown({ graceful: false });
    await call;
  },
  'a caller that dies': async ([caller]) => {
    const call = rpcSync('w1', work, ['x', 200]);
    call.catch(() => undefined);
    await delay(100);
    await caller?.shutdown({ graceful: false });
    await call;
  },
  'what nobody samples': () => rpcSync('w1', work, ['x', 1]),
  gauges: ([first]) => {
    const seen: object[] = [];
    for (const read of telemetry.gauges) read({ observe: (_, attributes = {}) => seen.push(attributes) });
    return Promise.resolve({
      perAgent: seen.length / 2,
      attributes: [...new Set(seen.map((each) => JSON.stringify(each)))],
      group: first?.group,
    });
  },
};

const told: Record<string, Told> = {};
for (const [name, run] of Object.entries(CASES)) {
  telemetry = new Telemetry(
    name === 'what nobody samples' ? new ParentBasedSampler({ root: new AlwaysOffSampler() }) : undefined,
  );
  const agents = await telemetry.group(2, `memory://${name.replaceAll(' ', '-')}`);
  // So that no case waits for a connection.
  await agents[0]?.run(() => rpcSync('w1', ready, []));
  while (telemetry.open > 0) await delay(1);
  telemetry.forget();
  const note = await agents[0]
    ?.run(async () => run(agents))
    .catch((error: unknown) => (error instanceof Error ? error.name : String(error)));
  await delay(60);
  // One-way calls may still be on their way, and handlers that nobody waits for at work.
  for (let waited = 0; telemetry.open > 0 && waited < 20; waited++) await delay(25);
  const { ended, open, recorded } = telemetry;
  await Promise.all(agents.map((agent) => agent.shutdown({ graceful: false })));
  const left = { open: telemetry.open, gauges: telemetry.gauges.size };
  told[name] = { spans: ended, open, recorded: [...recorded], left, late: telemetry.ended.slice(ended.length), note };
}
console.log(`told ${JSON.stringify(told)}`);
process.exit(0); // of handlers that never end
