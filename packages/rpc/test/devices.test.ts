/** @file Tensors of devices in calls: they go where the map says and come back the way they went, by converters where there are some. */
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { add, deviceMemory, openHostDevice, sparseCooTensor, tensor, type Device, type Tensor } from '@backwire/tensor';
import { registerDeviceTypeConverter, type DeviceTypeConverter } from '@backwire/wire';
import { rpcAsync, rpcFunction, rpcInfo, rpcOneway, rpcStream, rpcSync, type RpcOptions } from '../src/index.ts';
import { startCluster, until, type Cluster } from './cluster.ts';

for (const device of ['host:0', 'host:1', 'own:0', 'own:1', 'counted:0']) openHostDevice(device);

let cluster: Cluster | undefined;
afterEach(async () => {
  await cluster?.close();
  cluster = undefined;
});
type Maps = NonNullable<RpcOptions['deviceMaps']>;
/** Two workers; the first has the maps. They know each other's when it resolves. */
async function start(deviceMaps?: Maps, size = 2): Promise<Cluster['at']> {
  cluster = await startCluster(size, (rank) => (rank === 0 && deviceMaps !== undefined ? { deviceMaps } : {}));
  const { agents } = cluster;
  await until(() => agents.every((agent) => agent.debugInfo()['agent.peers'] === size - 1));
  return cluster.at;
}
const failure = (promise: Promise<unknown>): Promise<Error> =>
  promise.then(
    () => new Error('no failure'),
    (error: unknown) => error as Error,
  );

/** Says where its arguments are, and gives their sum, which is there. */
const where = rpcFunction('devices/where', (...ts: Tensor[]) => ({
  devices: ts.map(({ device }) => device),
  result: ts.reduce((a, b) => a.add(b)),
}));
const identity = rpcFunction('devices/identity', (x: Tensor) => x);
const move = rpcFunction('devices/move', (x: Tensor, to: string) => x.to(to as Device));
const items = rpcFunction('devices/items', function* (x: Tensor) {
  yield x;
  yield x.add(1);
});
const heard: Device[] = [];
const hear = rpcFunction('devices/hear', (x: Tensor) => void heard.push(x.device));

describe('a mapped tensor', () => {
  it.each<[string, Record<string, string>, Device, Device]>([
    ['of a device, on another one', { 'host:0': 'host:1' }, 'host:0', 'host:1'],
    ['of a device, on the same', { 'host:0': 'host:0' }, 'host:0', 'host:0'],
    ['of a device, on the cpu', { 'host:0': 'cpu' }, 'host:0', 'cpu'],
    ['of the cpu, on a device', { cpu: 'host:1' }, 'cpu', 'host:1'],
    ['of the cpu, on the cpu', { cpu: 'cpu' }, 'cpu', 'cpu'],
  ])('%s, and its answer where it came from', async (_, map, from, to) => {
    const at = await start({ w1: map });
    const [x, y] = [tensor([1, 2]).to(from), tensor([3, 4]).to(from)];
    const { devices, result } = await at(0).run(() => rpcSync('w1', where, [x, y]));
    expect(devices).toEqual([to, to]);
    expect([result.device, result.toArray()]).toEqual([from, [4, 6]]);
    const sum = await at(0).run(() => rpcAsync('w1', add, [x, y]));
    expect([sum.device, sum.toArray()]).toEqual([from, [4, 6]]);
  });

  it('goes by its own map where there are several, to this worker itself too', async () => {
    const map = { 'host:0': 'host:1', 'host:1': 'host:0' };
    const at = await start({ w1: map, w0: map });
    const [x, y] = [tensor([1]).to('host:0'), tensor([2]).to('host:1')];
    for (const to of ['w1', 'w0']) {
      for (const [t, there] of [
        [x, 'host:1'],
        [y, 'host:0'],
      ] as const) {
        // prettier-ignore
        const { devices, result } = await at(0).run(() => rpcSync(to, where, [t]));
        expect([devices, result.device]).toEqual([[there], t.device]);
      }
      // What is mixed there is refused there, in the words of the operation.
      const mixed = await failure(at(0).run(() => rpcSync(to, where, [x, y])));
      expect(mixed.message).toMatch(/Expected all tensors to be on the same device, .* host:1 and host:0/);
    }
  });

  it('takes its memory: storages are on the device, shared ones once, freed ones gone', async () => {
    const at = await start({ w1: { 'host:0': 'counted:0' } });
    const base = tensor(new Float32Array(10_000).fill(1)).to('host:0');
    // Nobody else uses this device: what other tests left to the collector does not count.
    expect(deviceMemory('counted:0')).toBe(0);
    const [all, part] = await at(0).run(() => rpcSync('w1', pair, [base, base.narrow(0, 0, 9_000)]));
    expect([all.device, part.device, all.storage === part.storage]).toEqual(['host:0', 'host:0', true]);
    expect(most).toBe(40_000);
    expect(part.sum().item()).toBe(9_000);
    await until(() => deviceMemory('counted:0') === 0, 'the handler has let go');
  });
  let most = 0;
  const pair = rpcFunction(
    'devices/pair',
    (a: Tensor, b: Tensor) => {
      most = deviceMemory('counted:0');
      expect(a.storage).toBe(b.storage);
      return [a, b] as [Tensor, Tensor];
    },
    { scope: true },
  );

  it('may be sparse, an item of a stream, and an argument that wants no answer', async () => {
    const at = await start({ w1: { 'host:0': 'host:1' } });
    const s = sparseCooTensor(tensor([[0, 2]], { dtype: 'int64' }), tensor([1, 2]), [4]).to('host:0');
    const { devices, result } = await at(0).run(() => rpcSync('w1', where, [s, s]));
    expect([devices, result.device, result.toDense().toArray()]).toEqual([
      ['host:1', 'host:1'],
      'host:0',
      [2, 0, 4, 0],
    ]);
    const got: unknown[] = [];
    await at(0).run(async () => {
      for await (const t of rpcStream('w1', items, [tensor([5]).to('host:0')])) got.push([t.device, t.toArray()]);
    });
    expect(got).toEqual([['host:0', [5]], ['host:0', [6]]]); // prettier-ignore
    at(0).run(() => rpcOneway('w1', hear, [tensor([1]).to('host:0')]));
    await until(() => heard.length === 1);
    expect(heard).toEqual(['host:1']);
  });
});

describe('a tensor without a map', () => {
  const words = (what: string, to: string, device: string): RegExp =>
    new RegExp(
      'only supports CPU tensors by default, please move your tensors to CPU before sending them over RPC, or .* to explicitly configure device mapping. ' +
        `${what} device mapping is not available for destination ${to}, but found tensor on device: ${device} `,
    );

  it('is refused at once, and as often as it is sent, and the workers stay well', async () => {
    const at = await start({ w1: { 'host:0': 'host:1' } });
    for (let i = 0; i < 10; i++) {
      const error = await failure(at(0).run(() => rpcSync('w1', identity, [tensor([1]).to('host:1')])));
      expect(error.message).toMatch(words('Request', 'w1', 'host:1'));
      expect(rpcInfo(error)).toMatchObject({ code: 'invalid-argument', executed: 'no' });
    }
    expect((await at(0).run(() => rpcSync('w1', identity, [tensor([1])]))).item()).toBe(1);
    const back = await failure(at(1).run(() => rpcSync('w0', identity, [tensor([1]).to('host:1')])));
    expect(back.message).toMatch(words('Request', 'w0', 'host:1'));
  });

  it('is refused as an answer too', async () => {
    const at = await start({ w1: { 'host:0': 'host:1' } });
    for (let i = 0; i < 10; i++) {
      const error = await failure(at(0).run(() => rpcSync('w1', move, [tensor([1]), 'host:0'])));
      expect(error.message).toMatch(words('Response', 'w0', 'host:0'));
    }
    const fine = await at(0).run(() => rpcSync('w1', move, [tensor([1]), 'host:1']));
    expect(fine.device).toBe('host:0');
  });

  it('that is mapped to a device nobody has is refused where it arrives', async () => {
    const at = await start({ w1: { 'host:0': 'nowhere:3' } });
    const error = await failure(at(0).run(() => rpcSync('w1', identity, [tensor([1]).to('host:0')])));
    expect(error.message).toContain('a tensor for the device nowhere:3, which this worker does not have');
    expect((await at(0).run(() => rpcSync('w1', identity, [tensor([1])]))).item()).toBe(1);
  });
});

describe('converters', () => {
  const log: string[] = [];
  let released = 0;
  const converter: DeviceTypeConverter = {
    prepareTensorForSending(t) {
      const { device, storage } = t;
      log.push(`send ${device} ${storage.nbytes}`);
      return { bytes: storage.hostBytes().slice(), release: () => void released++ };
    },
    allocateTensorForReceiving(nbytes, device) {
      log.push(`receive ${device} ${nbytes}`);
      return new Uint8Array(nbytes);
    },
  };
  registerDeviceTypeConverter('own', converter);
  afterAll(() => registerDeviceTypeConverter('own', { ...converter }));

  it.each([[4], [100_000]])('are asked on both sides, for %i numbers', async (count) => {
    const at = await start({ w1: { 'own:0': 'own:1' } });
    log.length = released = 0;
    const x = tensor(new Float32Array(count).fill(2)).to('own:0');
    const { devices, result } = await at(0).run(() => rpcSync('w1', where, [x]));
    expect([devices, result.device, result.sum().item()]).toEqual([['own:1'], 'own:0', 2 * count]);
    const nbytes = 4 * count;
    expect(log).toEqual([
      `send own:0 ${nbytes}`,
      `receive own:1 ${nbytes}`,
      `send own:1 ${nbytes}`,
      `receive own:0 ${nbytes}`,
    ]);
    await until(() => released === 2, 'both were told that the bytes are written');
  });

  it('that give the wrong memory fail the call that meets them, and no other', async () => {
    const at = await start({ w1: { 'own:0': 'own:1' } });
    const x = tensor([1, 2]).to('own:0');
    registerDeviceTypeConverter('own', { ...converter, prepareTensorForSending: () => ({ bytes: new Uint8Array(3), release: () => undefined }) }); // prettier-ignore
    expect((await failure(at(0).run(() => rpcSync('w1', identity, [x])))).message).toContain(
      'gave 3 bytes of a storage of 8',
    );
    registerDeviceTypeConverter('own', { ...converter, allocateTensorForReceiving: () => new Uint8Array(3) });
    expect((await failure(at(0).run(() => rpcSync('w1', identity, [x])))).message).toContain(
      'gave 3 bytes instead of 8',
    );
    registerDeviceTypeConverter('own', converter);
    expect((await at(0).run(() => rpcSync('w1', identity, [x]))).toArray()).toEqual([1, 2]);
  });
});
