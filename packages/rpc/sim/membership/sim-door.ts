/** @file The way in and out that many take at once, as steps between answers of the store: what membership/entrance.ts does. */
import type { Random } from '@backwire/testing';
import { takeAll, type Taken, type Wish } from '../../src/protocol/admission.ts';
import type { View } from '../../src/protocol/membership.ts';
import { isView, type Life, type StoreReply, type StoreRequest } from './messages.ts';

/** What is wrong on purpose. */
interface DoorRules {
  /** Takes whoever waits into the view without looking at who is there. */
  readonly waves: boolean;
}

type Step = Generator<StoreRequest | number, void, StoreReply | undefined>;

const DOOR_MS = 1_000;
const LOOKS = 5;
const ROUNDS = 50;
const LINGER_MS = 50;

/** Writes down what it wants, and takes all in if it comes to stand at the door. Any step may be the last of its process. */
export function* atDoor(random: Random, rules: DoorRules, life: Life, wish: Wish): Step {
  if ((yield { op: 'wish', life, wish }) !== true) return;
  for (let look = 0; look < LOOKS; look++) {
    if ((yield { op: 'take-door', life }) === true) {
      yield* takeIn(random, rules, life);
      return;
    }
    yield Math.round(DOOR_MS * (0.5 + random.float()));
    if ((yield { op: 'wished', life }) === false) return;
  }
}

function* takeIn(random: Random, rules: DoorRules, life: Life): Step {
  for (let round = 0; round < ROUNDS; round++) {
    const wishes = yield { op: 'wishes' };
    if (!(wishes instanceof Map)) continue;
    if (wishes.size === 0) {
      yield { op: 'leave-door', life };
      const more = yield { op: 'wishes' };
      if (!(more instanceof Map) || more.size === 0 || (yield { op: 'take-door', life }) !== true) return;
      continue;
    }
    const view = yield { op: 'view' };
    if (!isView(view)) continue;
    const all = [...(wishes as ReadonlyMap<Life, Wish>).values()];
    const taken = rules.waves ? wavedIn(view, all) : takeAll(view, all, (member, id) => ({ ...member, id }));
    if (taken.view !== view && (yield { op: 'change', before: view, next: taken.view }) !== true) continue;
    yield { op: 'answer', lives: [...(wishes as ReadonlyMap<Life, Wish>).keys()] };
    yield Math.round(random.float() * LINGER_MS);
  }
  yield { op: 'leave-door', life };
}

/** What `takeAll` must not do. */
function wavedIn(view: View, wishes: readonly Wish[]): Pick<Taken, 'view'> {
  const came = wishes.flatMap((wish) => (wish.kind === 'join' ? [wish.member] : []));
  return { view: { ...view, epoch: view.epoch + 1, members: [...view.members, ...came] } };
}
