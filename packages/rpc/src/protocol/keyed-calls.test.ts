/** @file Calls with a key: what each is told, in every order of events; what is kept, for how long, and what a full table costs. */
import { kept as left, Random } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { KeyedCalls, type Turn } from './keyed-calls.ts';

const LIMITS = { maxOutcomes: 100, maxBytes: 1_000, keepMs: 50 };
const table = (): KeyedCalls<string, string> => new KeyedCalls(LIMITS);
const run = { kind: 'run' };
const wait = { kind: 'wait' };
const kept = (outcome: string, bytes = 0): { outcome: string; bytes: number } => ({ outcome, bytes });

describe('a key', () => {
  it('runs one call; those that come meanwhile get its outcome, and so do those after it for a time', () => {
    const calls = table();
    expect(['a', 'b', 'c'].map((who) => calls.arrive('k', 'x', who, 0))).toEqual([run, wait, wait]);
    const outcome = { kind: 'outcome', outcome: 'done' };
    expect(calls.ended('k', kept('done'), 10)).toEqual([
      { to: 'b', turn: outcome },
      { to: 'c', turn: outcome },
    ]);
    expect([59, 60].map((now) => calls.arrive('k', 'x', 'd', now))).toEqual([outcome, run]);
  });

  it('keeps nothing of a run without a result: the first that waits runs, with those behind it still waiting', () => {
    const calls = table();
    for (const who of ['a', 'b', 'c', 'd']) calls.arrive('k', 'x', who, 0);
    calls.left('k', 'b');
    expect(calls.ended('k', undefined, 1)).toEqual([{ to: 'c', turn: run }]);
    expect(calls.arrive('k', 'x', 'e', 2)).toEqual(wait);
    expect(calls.ended('k', undefined, 3)).toEqual([{ to: 'd', turn: run }]);
    expect(calls.ended('k', kept('done'), 4)).toEqual([{ to: 'e', turn: { kind: 'outcome', outcome: 'done' } }]);
  });

  it('is unknown again when nobody waits for a run without a result: other arguments may have it', () => {
    const calls = table();
    calls.arrive('k', 'x', 'a', 0);
    calls.arrive('k', 'x', 'b', 0);
    calls.left('k', 'b');
    expect(calls.ended('k', undefined, 1)).toEqual([]);
    expect(calls.size).toBe(0);
    expect(calls.arrive('k', 'y', 'c', 2)).toEqual(run);
  });

  it('tells each that waits once, and nobody again when all is forgotten', () => {
    const calls = table();
    for (const who of ['a', 'b', 'c']) calls.arrive('k', 'x', who, 0, 'caller');
    expect(calls.ended('k', kept('done', 5), 1)).toHaveLength(2);
    calls.arrive('l', 'x', 'd', 2, 'caller');
    calls.arrive('l', 'x', 'e', 2, 'other');
    expect(calls.clear()).toEqual(['e']);
    expect(left(calls)).toEqual([]);
  });

  it('leaves nothing behind of those who called, once it is too old or gave nothing', () => {
    const calls = table();
    for (const [i, who] of ['a', 'b', 'c'].entries()) {
      calls.arrive(who, 'x', who, 0, `caller ${i}`);
      calls.ended(who, who === 'c' ? undefined : kept('done', 5), 1);
    }
    for (const key of ['a', 'b']) {
      calls.arrive(key, 'x', 'late', 60);
      calls.ended(key, undefined, 60);
    }
    expect([calls.size, calls.bytes, left(calls)]).toEqual([0, 0, []]);
  });

  it('refuses other arguments while a call runs, and while its outcome is kept', () => {
    const calls = table();
    const refused = { kind: 'refused', why: 'other-arguments' };
    calls.arrive('k', 'x', 'a', 0);
    expect(calls.arrive('k', 'y', 'b', 0)).toEqual(refused);
    expect(calls.ended('k', kept('done'), 0)).toEqual([]);
    expect(calls.arrive('k', 'y', 'b', 49)).toEqual(refused);
    expect(calls.arrive('l', 'y', 'b', 49)).toEqual(run);
    expect(calls.arrive('k', 'y', 'b', 50)).toEqual(run);
  });
});

describe('a table', () => {
  it('of so many bytes refuses new keys, and knows the old ones', () => {
    const calls = table();
    for (const key of ['a', 'b', 'c', 'd']) {
      expect(calls.arrive(key, '', key, 0)).toEqual(run);
      calls.ended(key, kept(key, 250), 0);
    }
    expect(calls.arrive('e', '', 'e', 1)).toEqual({ kind: 'refused', why: 'full' });
    expect(calls.arrive('a', '', 'a', 1)).toEqual({ kind: 'outcome', outcome: 'a' });
    expect(calls.arrive('e', '', 'e', 50)).toEqual(run);
    expect([calls.size, calls.bytes]).toEqual([1, 0]);
  });

  it('takes a key whose outcome is too old for a new one, without counting both', () => {
    const calls = table();
    for (let i = 0; i < 8; i++) {
      expect(calls.arrive('a', '', 'a', i * 50)).toEqual(run);
      calls.ended('a', kept('', 900), i * 50);
      expect(calls.bytes).toBe(900);
    }
    expect(calls.arrive('b', '', 'b', 399)).toEqual(run);
  });

  it('leaves an eighth of keys, and of bytes, to others than the caller with the most', () => {
    const full = { kind: 'refused', why: 'full' };
    const keys = table();
    let had = 0;
    while (keys.arrive(`a${had}`, '', '', 0, 'a').kind === 'run') had++;
    expect([had, keys.arrive('b', '', '', 0, 'b')]).toEqual([88, run]);
    const bytes = table();
    for (let i = 0; i < 9; i++) {
      bytes.arrive(`a${i}`, '', '', 0, 'a');
      bytes.ended(`a${i}`, kept('x', 100), 0);
    }
    expect([bytes.arrive('a', '', '', 1, 'a'), bytes.arrive('b', '', '', 1, 'b')]).toEqual([full, run]);
    expect(bytes.arrive('a', '', '', 60, 'a')).toEqual(run);
  });

  it('of so many keys is full until the oldest may be forgotten', () => {
    const calls = table();
    calls.arrive('first', '', '', 0);
    calls.ended('first', kept(''), 0);
    for (let i = 1; i < LIMITS.maxOutcomes; i++) calls.arrive(`${i}`, '', '', 10);
    const full = { kind: 'refused', why: 'full' };
    expect([10, 49, 50].map((now) => calls.arrive(`more ${now}`, '', '', now))).toEqual([full, full, run]);
    expect(calls.arrive('yet more', '', '', 50)).toEqual(full);
    // One that ends without a result makes room at once.
    calls.ended('1', undefined, 51);
    expect(calls.arrive('yet more', '', '', 51)).toEqual(run);
  });

  it('forgets all, and says who waited', () => {
    const calls = table();
    for (const who of ['a', 'b']) calls.arrive('k', '', who, 0);
    calls.arrive('l', '', 'c', 0);
    expect(calls.clear()).toEqual(['b']);
    expect(calls.ended('k', kept('late'), 1)).toEqual([]);
    expect([calls.size, calls.bytes]).toEqual([0, 0]);
  });
});

/** One call of a simulation, and what it was told. */
interface Call {
  readonly key: string;
  readonly digest: string;
  state: 'new' | 'runs' | 'waits' | 'left' | 'answered' | 'ended' | 'refused';
}

type Result = { readonly outcome: string; readonly digest: string; readonly at: number; readonly bytes: number };

/** Random events on one table beside a model of what was kept. Throws at the first that is not as it should be. */
function simulate(seed: number): void {
  const random = new Random(`keyed calls ${seed}`);
  const limits = { maxOutcomes: 6, maxBytes: 40, keepMs: 20 };
  const given: string[] = [];
  const forgotten = new Set<string>();
  const calls = new KeyedCalls<Call, string>(limits, (outcome) => {
    must(!forgotten.has(outcome), `${outcome} is forgotten twice`);
    forgotten.add(outcome);
  });
  const all: Call[] = [];
  const results = new Map<string, Result>();
  let now = 0;
  const must = (holds: boolean, what: string): void => {
    if (!holds) throw new Error(`seed ${seed}, at ${now}: ${what}`);
  };
  const inState = (state: Call['state']): Call[] => all.filter((call) => call.state === state);
  const runner = (key: string): Call | undefined => inState('runs').find((call) => call.key === key);
  const fresh = (key: string): Result | undefined => {
    const known = results.get(key);
    return known !== undefined && now < known.at + limits.keepMs ? known : undefined;
  };
  const told = (call: Call, turn: Turn<string>): void => {
    must(call.state === 'new' || call.state === 'waits', 'a call that was told before');
    const holder = (runner(call.key) ?? fresh(call.key))?.digest;
    if (turn.kind === 'run') must(holder === undefined, 'a key that runs, or is kept, runs again');
    else if (turn.kind === 'wait')
      must(runner(call.key)?.digest === call.digest, 'it waits for nobody, or for other arguments');
    else if (turn.kind === 'outcome') {
      const known = fresh(call.key);
      must(known?.outcome === turn.outcome && known.digest === call.digest, 'an outcome of another call, or too old');
      must(!forgotten.has(turn.outcome), 'an outcome that was forgotten');
    } else if (turn.why === 'full') must(holder === undefined, 'no room for a key that is known');
    else must(holder !== undefined && holder !== call.digest, 'the same arguments are refused');
    call.state = ({ run: 'runs', wait: 'waits', outcome: 'answered', refused: 'refused' } as const)[turn.kind];
  };
  const end = (call: Call, result: Result | undefined): void => {
    call.state = 'ended';
    const waiting = inState('waits').filter(({ key }) => key === call.key);
    if (result !== undefined) {
      results.set(call.key, result);
      given.push(result.outcome);
    }
    const notices = calls.ended(call.key, result, now);
    // A result is for all that wait, in their order; without one, the first goes on.
    const due = result === undefined ? waiting.slice(0, 1) : waiting;
    must(notices.length === due.length && notices.every(({ to }, at) => to === due[at]), 'the wrong ones were told');
    for (const { to, turn } of notices) told(to, turn);
  };
  for (let step = 0; step < 300; step++) {
    now += random.int(0, 4);
    const event = random.weighted({ arrive: 5, result: 3, nothing: 2, leave: 1 });
    if (event === 'arrive') {
      const call: Call = { key: random.pick([...'abcdefgh']), digest: random.pick(['x', 'y']), state: 'new' };
      all.push(call);
      told(call, calls.arrive(call.key, call.digest, call, now));
    } else {
      const candidates = inState(event === 'leave' ? 'waits' : 'runs');
      if (candidates.length === 0) continue;
      const call = random.pick(candidates);
      if (event === 'leave') {
        calls.left(call.key, call);
        call.state = 'left';
      } else {
        const { digest } = call;
        const bytes = random.int(0, 12);
        end(call, event === 'result' ? { outcome: `result ${step}`, digest, at: now, bytes } : undefined);
      }
    }
    const running = new Set(inState('runs').map(({ key }) => key));
    must(running.size === inState('runs').length, 'a key runs twice at once');
    must(
      inState('waits').every(({ key }) => running.has(key)),
      'a call waits for nobody',
    );
    must(calls.size >= running.size && calls.size <= limits.maxOutcomes, `${calls.size} keys`);
    const most = [...results].reduce((sum, [key, { bytes }]) => (running.has(key) ? sum : sum + bytes), 0);
    must(calls.bytes <= most, `${calls.bytes} bytes kept of ${most}`);
  }
  const [late] = inState('runs');
  calls.clear();
  if (late !== undefined) calls.ended(late.key, kept('late'), now);
  must(late === undefined || forgotten.has('late'), 'what comes too late is kept');
  must(
    given.every((outcome) => forgotten.has(outcome)),
    'an outcome is told of that is neither kept nor forgotten',
  );
}

it('tells every call once, whatever the order of events: 300 seeds', () => {
  for (let seed = 0; seed < 300; seed++) simulate(seed);
});
