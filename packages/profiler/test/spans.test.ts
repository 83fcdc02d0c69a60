/** @file Spans of calls that end in all the ways calls end, in groups of one process. */
import { describe, expect, it } from 'vitest';
import { rpcFunction, rpcSync, type RpcAgent } from '@backwire/rpc';
import { Telemetry, useTelemetry } from './telemetry.ts';

const { group } = useTelemetry('spans');

/** Throws an error of a class of any name. */
const throwsOwn = rpcFunction('spans.test/throwsOwn', (name: string): void => {
  throw new { [name]: class extends Error {} }[name]!('sesame');
});

describe('the metrics', () => {
  it('name the classes that a function throws, as many as are kept apart', async () => {
    const telemetry = new Telemetry();
    const [first] = (await group(2, telemetry)) as [RpcAgent];
    await first.run(async () => {
      for (let i = 0; i < 40; i++) await rpcSync('w1', throwsOwn, [`Own${i}`]).catch(() => undefined);
    });
    for (const metric of ['rpc.client.call.duration', 'rpc.server.call.duration']) {
      const types = telemetry.recorded
        .filter((each) => each.metric === metric)
        .map(({ attributes }) => attributes['error.type']);
      expect(types).toHaveLength(40);
      expect(types.slice(0, 32)).toEqual(Array.from({ length: 32 }, (_, i) => `Own${i}`));
      expect(new Set(types.slice(32))).toEqual(new Set(['other']));
    }
    // A span is no series: it says what it was.
    const types = telemetry.ended.map(({ attributes }) => attributes['error.type']);
    expect(types.filter((type) => type === 'Own39')).toHaveLength(2);
  });
});
