/** @file Device maps: requests go by the caller's map, answers by its reverse, and both say what has no place. */
import { afterEach, describe, expect, it } from 'vitest';
import type { Agent } from '../src/agent/agent.ts';
import { DeviceMaps } from '../src/base/device-maps.ts';
import { startCluster, until, type Cluster } from './cluster.ts';

let cluster: Cluster | undefined;
afterEach(async () => {
  await cluster?.close();
  cluster = undefined;
});

describe('a device map', () => {
  it('leads requests there and answers back', () => {
    const caller = new DeviceMaps({ ps: { 'gpu:0': 'gpu:3', 'gpu:1': 'gpu:2' } });
    const callee = new DeviceMaps();
    callee.announced('trainer', caller.given?.['ps']);
    expect(caller.to('ps', 'Request')('gpu:0')).toBe('gpu:3');
    expect(callee.to('trainer', 'Response')('gpu:3')).toBe('gpu:0');
    expect(callee.to('trainer', 'Response')('gpu:2')).toBe('gpu:1');
    expect(callee.to('trainer', 'Response')('cpu')).toBe('cpu');
  });

  it('says which direction has no place for a tensor', () => {
    const maps = new DeviceMaps({ ps: { 'gpu:0': 'gpu:1' } });
    expect(() => maps.to('ps', 'Request')('gpu:7')).toThrow(
      /Request device mapping is not available for destination ps, but found tensor on device: gpu:7/,
    );
    // The map for requests to a peer says nothing of answers to it.
    expect(() => maps.to('ps', 'Response')('gpu:0')).toThrow(/Response device mapping is not available/);
  });

  it.each([
    [null, 'null'],
    [5, '5'],
    ['gpu:0', "'gpu:0'"],
    [['gpu:0'], 'a list'],
  ])('that is none is refused, by the name of the peer: %j', (map, got) => {
    const words = `deviceMaps: 'ps' has an object of devices by device, got ${got}`;
    expect(() => new DeviceMaps({ ps: map as never })).toThrow(words);
  });

  it.each([
    [null],
    ['gpu:0'],
    [{ 'gpu:0': 5 }],
    [{ __proto__: { 'gpu:0': 'gpu:1' } }],
    [{ disk: 'gpu:0', 'gpu:1': 'tape' }],
  ])('of a peer that is none is not believed: %j', (map) => {
    const maps = new DeviceMaps();
    maps.announced('w', map);
    expect(() => maps.to('w', 'Response')('gpu:0')).toThrow(/not available/);
  });

  it('reaches the other members with the view, and is forgotten with a later life', async () => {
    cluster = await startCluster(2, (rank) => (rank === 0 ? { deviceMaps: { w1: { 'gpu:0': 'gpu:1' } } } : {}));
    const callee = cluster.at(1) as Agent;
    await until(() => callee.members.others().length === 1);
    expect(callee.deviceMaps.to('w0', 'Response')('gpu:1')).toBe('gpu:0');
    expect(() => (cluster?.at(0) as Agent).deviceMaps.to('w1', 'Response')('gpu:1')).toThrow(/Response/);
    callee.deviceMaps.announced('w0', undefined);
    expect(() => callee.deviceMaps.to('w0', 'Response')('gpu:1')).toThrow(/Response/);
  });
});
