/** @file What is explored of the agreement of members: deaths, stalls and cuts, with the store there, away, and back. */
import type { Pair, Scenario } from './bounds.ts';

type Part = readonly (number | 'store')[];

/** From the smallest group on. Each name says the size of the group. */
export function scenarios(sizes: readonly number[]): Scenario[] {
  return sizes.flatMap((size) => [...deaths(size), ...stalls(size), ...cuts(size)]);
}

/** What becomes of the store; while it is away it is silent, or its host says that it does not run. */
type Store = Pick<Scenario, 'store' | 'down'>;

const UP: Store = {};
const OUTAGES: readonly Store[] = [false, true].flatMap((down) =>
  (['same', 'empty', 'never'] as const).map((store) => ({ store, down })),
);
/** Of larger groups less is explored, to stay within half an hour. */
const LARGE = 5;

function storesOf(size: number): readonly Store[] {
  const few = OUTAGES.filter(({ store, down }) => store !== 'empty' && down !== true);
  return [UP, ...(size < LARGE ? OUTAGES : few)];
}

function storeText({ store, down }: Store): string {
  if (store === undefined) return 'store up';
  const away = down === true ? 'down' : 'away';
  return store === 'never' ? `store ${away} for good` : `store ${away}, back ${store}`;
}

function deaths(size: number): Scenario[] {
  return (['proved', 'refused', 'silent'] as const).flatMap((how) =>
    storesOf(size).flatMap((store) =>
      // The oldest collects what the others say: it makes a difference whether it is the one.
      [0, size - 1].map((of) => ({
        name: `${size} workers, ${of} dies (${how}), ${storeText(store)}`,
        size,
        death: { of, how },
        ...store,
        ends: nobody,
      })),
    ),
  );
}

function stalls(size: number): Scenario[] {
  return storesOf(size).map((store) => ({
    name: `${size} workers, 0 stands still, ${storeText(store)}`,
    size,
    stall: 0,
    ...store,
    ends: nobody,
  }));
}

function cuts(size: number): Scenario[] {
  const all = range(0, size);
  const [oldest, rest] = [range(0, 1), range(1, size)];
  const [youngest, before] = [range(size - 1, size), range(0, size - 1)];
  const [small, large] = [range(0, Math.floor(size / 2)), range(Math.floor(size / 2), size)];
  const stays = size % 2 === 0 ? small : large;
  const unmended = ({ mended }: Scenario): boolean => mended === false;
  if (size === 3) {
    const singles = all.map((rank) => [rank]);
    return [
      ...parted(size, [oldest, rest], rest),
      ...parted(size, [before, youngest], before),
      ...parted(size, singles, oldest).filter(unmended),
      ...outages(size, [oldest, rest], rest),
      ...outages(size, [before, youngest], before),
      ...twoApart(size),
    ];
  }
  // Of two halves the one with the oldest stays.
  const halves = parted(size, [small, large], stays);
  if (size >= LARGE) return halves.filter((half) => unmended(half) && !half.name.endsWith('store with nobody'));
  return [
    ...halves,
    ...parted(size, [oldest, rest], rest),
    ...parted(size, [before, youngest], before),
    ...twoApart(size),
  ];
}

/** A cut into parts, of which `stays` goes on where everybody reaches the store; or the store is with one of them, or with none. */
function parted(size: number, parts: readonly Part[], stays: Part): Scenario[] {
  const text = parts.map((part) => part.join('')).join('|');
  const others = range(0, size).filter((rank) => !stays.includes(rank));
  return [true, false].flatMap((mended) => {
    const about = `${size} workers, cut ${text}${mended ? ', mended' : ''}`;
    const one = { size, mended };
    const found: Scenario[] = [
      { ...one, name: `${about}, store with all`, cut: between(parts), ends: endsOf(others, mended) },
    ];
    parts.slice(0, 2).forEach((part) => {
      const without = range(0, size).filter((rank) => !part.includes(rank));
      const sides = parts.map((side) => (side === part ? [...side, 'store' as const] : side));
      // The part with the store puts the others out, and a majority of those it: as long as the cut lasts both go on, and then those with the store.
      const goOn = parts.some((other) => other !== part && 2 * other.length > size);
      const withStore = [...part] as number[];
      // Of three, two can decide that the third is gone as well, whom the store's side has put out: then that side is put out too.
      const both = goOn && without.length > 2 ? without.map((one) => [...withStore, one]) : [];
      const ends = mended ? someEnd(without, withStore, ...both) : endsOf(goOn ? [] : without, false);
      found.push({ ...one, name: `${about}, store with ${part.join('')}`, cut: between(sides), ends });
    });
    const majority = parts.find((part) => 2 * part.length > size);
    const minority = range(0, size).filter((rank) => majority?.includes(rank) !== true);
    const nobodys = between([...parts, ['store']]);
    found.push({ ...one, name: `${about}, store with nobody`, cut: nobodys, ends: endsOf(minority, mended) });
    return found;
  });
}

/** A cut into parts, with a store that everybody reaches until it goes: somebody may be put out before that, while it is away, or after. */
function outages(size: number, parts: readonly Part[], majority: Part): Scenario[] {
  const text = parts.map((part) => part.join('')).join('|');
  const others = range(0, size).filter((rank) => !majority.includes(rank));
  return [true, false].flatMap((mended) =>
    OUTAGES.map((store) => ({
      name: `${size} workers, cut ${text}${mended ? ', mended' : ''}, ${storeText(store)}`,
      size,
      mended,
      cut: between(parts),
      ...store,
      ends: someEnd(others),
    })),
  );
}

/** Two that do not reach each other, in a group that is well. */
function twoApart(size: number): Scenario[] {
  return storesOf(size).flatMap((store) =>
    [[0, 1] as const, [1, 2] as const].map((pair) => ({
      name: `${size} workers, ${pair.join(' and ')} apart, ${storeText(store)}`,
      size,
      cut: [pair],
      ...store,
      ends: nobody,
    })),
  );
}

function nobody(those: readonly number[]): string | undefined {
  return those.length === 0 ? undefined : `[${those.join()}] ended`;
}

/** All of these have ended and nobody else; or only some of them, when it was `mended` in time. */
function endsOf(ranks: readonly (number | 'store')[], mended: boolean): Scenario['ends'] {
  return (those) => {
    const other = those.some((rank) => !ranks.includes(rank));
    return other || (!mended && those.length !== ranks.length) ? `[${those.join()}] ended` : undefined;
  };
}

/** Some of one of these sets have ended, and none of the others. */
function someEnd(...sets: readonly (readonly number[])[]): Scenario['ends'] {
  return (those) => {
    return sets.some((ranks) => those.every((rank) => ranks.includes(rank))) ? undefined : `[${those.join()}] ended`;
  };
}

function between(parts: readonly Part[]): Pair[] {
  return parts.flatMap((part, i) =>
    parts.slice(i + 1).flatMap((other) => part.flatMap((a) => other.map((b): Pair => [a, b]))),
  );
}

function range(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);
}
