// A member of a group whose members are of different versions: each does everything with every other, and says what came of it.
import {
  barrier,
  callContext,
  createRRef,
  distAutograd,
  getWorkerInfos,
  initRpc,
  isRRef,
  nn,
  ones,
  optim,
  Parameter,
  remote,
  rpcAsync,
  rpcClass,
  rpcFunction,
  rpcInfo,
  rpcName,
  rpcOneway,
  rpcStream,
  shutdown,
  tensor,
} from 'backwire';

class Counter {
  static [rpcName] = 'peer/Counter';
  n = 0;
  add(by) {
    return (this.n += by);
  }
}
rpcClass(Counter, { methods: ['add'] });

const noted = [];
const echo = rpcFunction('peer/echo', (value) => value);
const scale = rpcFunction('peer/scale', (x, by) => x.mul(by));
const fail = rpcFunction('peer/fail', (text) => {
  throw new RangeError(text, { cause: new Error('below') });
});
const hang = rpcFunction(
  'peer/hang',
  () => new Promise((_, reject) => callContext().signal.addEventListener('abort', () => reject(new Error('over')))),
);
const count = rpcFunction('peer/count', async function* (to) {
  for (let i = 0; i < to; i++) yield tensor([i]);
});
const note = rpcFunction('peer/note', (text) => void noted.push(text));
const notes = rpcFunction('peer/notes', () => noted);
const weight = new Parameter(tensor([2, 3]));
const weigh = rpcFunction('peer/weigh', (x) => x.mul(weight));
const use = rpcFunction('peer/use', async (reference) => reference.rpcAsync().add(10));

const VALUE = {
  text: 'é\u{1F600}',
  numbers: [0, -0, 1.5, NaN, -Infinity, 2 ** 53],
  big: 2n ** 70n,
  nothing: [null, undefined],
  when: new Date(1_700_000_000_000),
  map: new Map([['a', new Set([1, 2])]]),
  bytes: new Uint8Array([1, 2, 255]),
  large: new Float64Array(20_000).fill(0.5),
};

/** Everything, with one other worker. */
async function everything(to) {
  const back = await rpcAsync(to, echo, [VALUE]);
  const [small, large] = await Promise.all([
    rpcAsync(to, scale, [tensor([1, 2, 3]), 2]),
    rpcAsync(to, scale, [ones([1_000, 1_000]), 3]),
  ]);
  const failure = await rpcAsync(to, fail, ['too far']).catch((error) => error);
  const late = await rpcAsync(to, hang, [], { timeoutMs: 100 }).catch((error) => error);
  const items = [];
  for await (const item of rpcStream(to, count, [3])) items.push(item.item());
  await rpcOneway(to, note, ['one-way']);
  const heard = await rpcAsync(to, notes, []);
  const counter = remote(to, Counter);
  const sums = [await counter.rpcAsync().add(1), await rpcAsync(to, use, [counter])];
  const own = createRRef(new Counter());
  const shared = await rpcAsync(to, use, [own]);
  counter.dispose();
  return {
    value: JSON.stringify(back, (_, value) =>
      typeof value === 'bigint' || (typeof value === 'number' && !Number.isFinite(value))
        ? String(value)
        : value instanceof Map || value instanceof Set
          ? [...value]
          : ArrayBuffer.isView(value)
            ? value.length
            : value,
    ),
    negativeZero: Object.is(back.numbers[1], -0),
    small: small.toArray(),
    large: [large.size, large.sum().item()],
    failure: [failure instanceof RangeError, failure.message],
    late: rpcInfo(late)?.code,
    items,
    heard: heard.includes('one-way'),
    sums: [...sums, shared, isRRef(own)],
    gradients: await differentiated(to),
  };
}

/** A loss through the other worker, and a step of an optimiser over there. */
async function differentiated(to) {
  const layer = await distAutograd.RemoteModule.create(`${to}/cpu`, nn.Linear, [2, 1]);
  const optimizer = await distAutograd.DistributedOptimizer.create(optim.SGD, await layer.remoteParameters(), {
    lr: 0.1,
  });
  const x = tensor([1, 2], { requiresGrad: true });
  return distAutograd.context(async (id) => {
    const loss = (await rpcAsync(to, weigh, [x])).sum();
    const other = (await layer.forward(tensor([[1, 1]]))).sum();
    await distAutograd.backward(id, [loss, other]);
    await optimizer.step(id);
    const before = other.item();
    const after = (await layer.forward(tensor([[1, 1]]))).sum().item();
    return [distAutograd.getGradients(id).get(x).toArray(), Math.round((before - after) * 1e4) / 1e4];
  });
}

const { NAME, RANK, WORLD_SIZE, TRANSPORTS } = process.env;
await initRpc({
  name: NAME,
  rank: Number(RANK),
  worldSize: Number(WORLD_SIZE),
  ...(TRANSPORTS && { transports: TRANSPORTS.split(',') }),
});
const others = getWorkerInfos().filter(({ name }) => name !== NAME);
const answer = {};
for (const { name } of others) answer[name] = await everything(name);
await barrier();
console.log(`answer ${JSON.stringify(answer)}`);
await shutdown();
