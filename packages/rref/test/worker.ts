/** @file One worker of the process tests: rank 0 plays the scenario of its first argument, the others serve until they are told to stop. */
import {
  createAgent,
  currentAgent,
  RpcError,
  rpcAsync,
  rpcFunction,
  rpcInfo,
  rpcSync,
  type RpcAgent,
} from '@backwire/rpc';
import { arange, type Tensor } from '@backwire/tensor';
import { createRRef, listRRefs, remote, rrefs, type RRef } from '../src/index.ts';
import { sessionOf } from '../src/extension.ts';

const kept: RRef<number>[] = [];
let stop: () => void = () => undefined;
const stopped = new Promise<void>((resolve) => (stop = resolve));

const identity = rpcFunction('process/identity', (x: number) => x);
const ramp = rpcFunction('process/ramp', (count: number): Tensor => arange(count));
const never = rpcFunction('process/never', () => new Promise<number>(() => undefined));
const keep = rpcFunction('process/keep', (rref: RRef<number>) => void kept.push(rref));
const keepAndUse = rpcFunction('process/keep-and-use', async (rref: RRef<number>) => {
  kept.push(rref);
  return rref.toHere();
});
const use = rpcFunction('process/use', async () => Promise.all(kept.map((rref) => rref.toHere())));
const drop = rpcFunction('process/drop', () => kept.splice(0).forEach((rref) => rref.dispose()));
const give = rpcFunction('process/give', (): RRef<number> => createRRef(5));
/** Hands on what it keeps, and does not wait for what becomes of it. */
const handOn = rpcFunction(
  'process/hand-on',
  (to: string) => void rpcAsync(to, keepAndUse, [kept[0] as RRef<number>]).catch(() => undefined),
);
const giveKept = rpcFunction('process/give-kept', () => kept[0] as RRef<number>);
const fetchFrom = rpcFunction(
  'process/fetch-from',
  async (name: string) => void kept.push(await rpcSync(name, giveKept)),
);
const others = rpcFunction('process/others', () =>
  sessionOf(currentAgent())
    .host.peers()
    .map(({ name }) => name),
);
const count = rpcFunction('process/count', () => sessionOf(currentAgent()).debugInfo());
const end = rpcFunction('process/end', () => stop());

type Counters = Record<string, number>;

async function until(condition: () => Promise<boolean> | boolean, what: string): Promise<void> {
  const limit = performance.now() + 20_000;
  while (!(await condition())) {
    if (performance.now() > limit) throw new Error(`${what} did not come true in 20 seconds`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const counters = (name: string): Promise<Counters> => rpcSync(name, count);
const say = (what: string, value: unknown): void => console.log(`${what} ${JSON.stringify(value)}`);
const codeOf = (error: unknown): string =>
  error instanceof RpcError ? error.code : (rpcInfo(error)?.code ?? String(error));

/** Each is run by rank 0; it writes a line when the test is to act, and one with what it saw. */
const scenarios: Record<string, (names: readonly string[]) => Promise<void>> = {
  async 'owner killed'(names) {
    const rref = remote('w1', identity, [7]);
    await rref.confirmed();
    await rpcSync('w2', keep, [rref]);
    const slow = remote('w1', never);
    let died = 0;
    rref.onOwnerDied(() => died++);
    const pending = [slow.toHere(), slow.confirmed(), slow.typeName()].map((use) => use.then(() => 'value', codeOf));
    await until(async () => (await counters('w1'))['num_owner_rrefs'] === 2, 'both values are there');
    console.log('kill');
    const before = performance.now();
    say('pending', await Promise.all(pending));
    say('elapsed', performance.now() - before);
    say(
      'later',
      await Promise.all(
        [rref.toHere(), rref.confirmed(), (rref as unknown as RRef<{ m(): number }>).rpcSync().m()].map((use) =>
          use.then(() => 'value', codeOf),
        ),
      ),
    );
    const again = remote('w1', identity, [8]);
    say(
      'again',
      await again.toHere().then(
        () => 'value',
        (error: unknown) => [codeOf(error), rpcInfo(error)?.peer?.name, rpcInfo(error)?.executed],
      ),
    );
    again.dispose();
    say('elsewhere', await rpcSync('w2', use).then(() => 'value', String));
    say('listeners', died);
    rref.dispose();
    slow.dispose();
    await until(() => sessionOf(currentAgent()).worker.users.size === 0, 'no handle is left');
    await finish(names.filter((name) => name !== 'w1'));
  },

  async 'user killed'(names) {
    const mine = createRRef(3);
    const theirs = remote('w1', identity, [4]);
    for (const rref of [mine, theirs]) for (const name of ['w2', 'w3']) await rpcSync(name, keep, [rref]);
    await until(async () => (await counters('w1'))['num_forks'] === 3, 'all forks are registered');
    console.log('kill');
    await until(async () => (await counters('w1'))['num_forks'] === 2, 'the owner released the fork of the dead user');
    await until(() => sessionOf(currentAgent()).worker.owners.forkCount === 1, 'this owner did, too');
    say(
      'holders',
      listRRefs().map(({ holders }) => holders),
    );
    say('alive', [await rpcSync('w3', use), await theirs.toHere()]);
    theirs.dispose();
    await rpcSync('w3', drop);
    await until(async () => (await counters('w1'))['num_owner_rrefs'] === 0, 'the last handle let go');
    await until(() => sessionOf(currentAgent()).worker.owners.size === 0, 'here too');
    await finish(names.filter((name) => name !== 'w2'));
  },

  /** w2, the parent, dies after its child has come to w3, which keeps it, and before w1, the owner, has heard of it. */
  async 'parent killed'(names) {
    await onlyHeldByTheSecond();
    await rpcSync('w3', fetchFrom, ['w2']);
    await until(async () => (await counters('w3'))['num_pending_users'] === 1, 'the child waits for its owner');
    console.log('kill');
    await until(async () => (await counters('w3'))['num_pending_users'] === 0, 'the owner answered');
    await until(async () => (await counters('w1'))['num_forks'] === 1, 'only w3 holds it');
    say('alive', await rpcSync('w3', use));
    await rpcSync('w3', drop);
    await until(async () => (await counters('w1'))['num_owner_rrefs'] === 0, 'it was let go');
    await finish(names.filter((name) => name !== 'w2'));
  },

  /** The same, where the child is in the arguments of a call that never starts: its caller is dead before its owner has answered. */
  async 'caller killed'(names) {
    await onlyHeldByTheSecond();
    await rpcSync('w2', handOn, ['w3']);
    await until(async () => (await counters('w3'))['num_pending_users'] === 1, 'the child waits for its owner');
    console.log('kill');
    await until(async () => !(await rpcSync('w3', others)).includes('w2'), 'w3 knows of the death');
    console.log('go on');
    await until(async () => (await counters('w3'))['num_pending_users'] === 0, 'the owner answered');
    await until(async () => (await counters('w1'))['num_owner_rrefs'] === 0, 'nobody holds it');
    say('alive', await rpcSync('w3', use));
    say('collected', (await counters('w3'))['num_collected_rrefs']);
    await finish(names.filter((name) => name !== 'w2'));
  },

  /** w3, the child, dies while w2, its parent, waits for it to be accepted. */
  async 'child killed'(names) {
    const rref = await rpcSync('w1', give);
    await rpcSync('w2', keep, [rref]);
    await rpcSync('w3', count);
    console.log('stop owner');
    await new Promise<void>((resolve) => process.stdin.once('data', () => resolve()));
    await rpcSync('w2', handOn, ['w3']);
    await until(async () => (await counters('w3'))['num_pending_users'] === 1, 'the child waits for its owner');
    console.log('kill');
    rref.dispose();
    await until(async () => (await counters('w2'))['num_pending_children'] === 0, 'the fence released the parent');
    await until(async () => (await counters('w1'))['num_forks'] === 1, 'only w2 holds it');
    say('alive', await rpcSync('w2', use));
    await rpcSync('w2', drop);
    await until(async () => (await counters('w1'))['num_owner_rrefs'] === 0, 'it was let go');
    await finish(names.filter((name) => name !== 'w3'));
  },

  /** The owner comes back under its old name and id: it is another member, and knows nothing of the old ids. */
  async 'owner restarted'(names) {
    const old = remote('w1', identity, [7]);
    await old.confirmed();
    console.log('kill');
    await until(
      () =>
        old.toHere().then(
          () => false,
          (error: unknown) => codeOf(error) === 'owner-died',
        ),
      'the death is known',
    );
    console.log('restart');
    await until(
      () =>
        rpcSync('w1', identity, [1]).then(
          () => true,
          () => false,
        ),
      'it is back',
    );
    const fresh = remote('w1', identity, [8]);
    say('fresh', await fresh.toHere());
    say('old', await old.toHere().then(() => 'value', codeOf));
    say('ids', [String(fresh) === String(old), (await counters('w1'))['num_owner_rrefs']]);
    old.dispose();
    fresh.dispose();
    await until(async () => (await counters('w1'))['num_owner_rrefs'] === 0, 'it was let go');
    await finish(names);
  },

  /** w0, which serves the store, dies without a launcher: the others agree on that by themselves. w1 plays. */
  async 'store killed'() {
    const theirs = remote('w0', identity, [7]);
    const mine = createRRef(3);
    await theirs.confirmed();
    for (const name of ['w0', 'w2']) await rpcSync(name, keep, [mine]);
    await rpcSync('w2', keep, [theirs]);
    const slow = remote('w0', never);
    const pending = [slow.toHere(), slow.confirmed()].map((use) => use.then(() => 'value', codeOf));
    await until(async () => (await counters('w0'))['num_owner_rrefs'] === 2, 'both values are there');
    console.log('kill');
    const before = performance.now();
    say('pending', await Promise.all(pending));
    say('later', await theirs.toHere().then(() => 'value', codeOf));
    say('elapsed', performance.now() - before);
    const dropped = rpcSync('w2', drop);
    say('again', [await rpcSync('w2', identity, [1]), await dropped]);
    theirs.dispose();
    slow.dispose();
    await until(() => sessionOf(currentAgent()).debugInfo()['num_forks'] === 0, 'the forks of w0 and of w2 are gone');
    say('counters', [sessionOf(currentAgent()).debugInfo(), await counters('w2')]);
    await finish(['w2']);
  },

  async work(names) {
    const all = names.filter((name) => name !== 'w0');
    const made = Array.from({ length: 60 }, (_, i) => remote(all[i % all.length] ?? '', identity, [i]));
    const values = await Promise.all(
      made.map((rref, i) => rpcSync(all[(i + 1) % all.length] ?? '', keepAndUse, [rref])),
    );
    say(
      'values',
      values.every((value, i) => value === i),
    );
    const large = remote('w1', ramp, [3 << 20]);
    const there = await large.toHere();
    say('large', [there.size, there.select(0, (3 << 20) - 1).item(), (await large.rpcSync().sum()).item() > 0]);
    large.dispose();
    for (const rref of made) rref.dispose();
    await Promise.all(all.map((name) => rpcSync(name, drop)));
    for (const name of all)
      await until(async () => (await counters(name))['num_owner_rrefs'] === 0, `nothing is left on ${name}`);
    await finish(names);
  },
};

/** A value on w1 that only w2 holds; then w1 is to be stopped. */
async function onlyHeldByTheSecond(): Promise<void> {
  const rref = await rpcSync('w1', give);
  await rpcSync('w2', keep, [rref]);
  rref.dispose();
  await until(
    async () => (await counters('w1'))['num_forks'] === 1 && (await counters('w1'))['num_pending_children'] === 0,
    'only w2 holds it',
  );
  await rpcSync('w3', count);
  console.log('stop owner');
  await new Promise<void>((resolve) => process.stdin.once('data', () => resolve()));
}

async function finish(names: readonly string[]): Promise<void> {
  say('done', true);
  await Promise.all(names.filter((name) => name !== 'w0').map((name) => rpcSync(name, end)));
}

const rank = Number(process.env['RANK']);
const worldSize = Number(process.env['WORLD_SIZE']);
const agent: RpcAgent = await createAgent({
  name: `w${rank}`,
  rank,
  worldSize,
  extensions: [rrefs({ creationSites: true })],
});
if (rank === (process.argv[2] === 'store killed' ? 1 : 0))
  await agent.run(() => scenarios[process.argv[2] ?? '']?.(Array.from({ length: worldSize }, (_, i) => `w${i}`)));
else await stopped;
const begun = performance.now();
await agent.shutdown({ timeoutMs: 15_000, onLeak: 'throw' });
say('shutdown', performance.now() - begun);
process.stdin.destroy();
