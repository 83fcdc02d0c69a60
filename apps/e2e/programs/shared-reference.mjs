// One object, which its owner keeps as long as anybody refers to it: two others count with it and hand it on.
import {
  barrier,
  initRpc,
  isRRef,
  listRRefs,
  remote,
  rpcClass,
  rpcFunction,
  rpcName,
  rpcSync,
  shutdown,
} from 'backwire';

class Counter {
  static [rpcName] = 'Counter';
  n = 0;
  add(by) {
    return (this.n += by);
  }
}
rpcClass(Counter, { methods: ['add'] });

let kept;
const keep = rpcFunction('keep', (reference) => {
  kept = reference;
  return isRRef(reference);
});
const addKept = rpcFunction('addKept', (by) => kept.rpcSync().add(by));
const drop = rpcFunction('drop', () => kept.dispose());
const owned = rpcFunction('owned', () => listRRefs().filter(({ owner }) => owner === 'owner').length);

const rank = Number(process.env.RANK);
await initRpc({ name: ['owner', 'first', 'second'][rank], rank, worldSize: 3 });
if (rank === 1) {
  const counter = remote('owner', Counter);
  const mine = await counter.rpcSync().add(1);
  const handed = await rpcSync('second', keep, [counter]);
  counter.dispose();
  // The other one's reference is enough.
  const others = await rpcSync('second', addKept, [10]);
  const before = await rpcSync('owner', owned, []);
  await rpcSync('second', drop, []);
  while ((await rpcSync('owner', owned, [])) > 0);
  console.log(`answer ${JSON.stringify([mine, handed, others, before])}`);
}
await barrier();
await shutdown();
