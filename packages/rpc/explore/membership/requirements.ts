/** @file What must hold in every world, and in those in which everything has come to rest. */
import type { Rows } from './rows.ts';

/** What contradicts what has to hold in every state. */
export function contradiction(rows: Rows, row: Uint32Array): string | undefined {
  const { bounds, size } = rows;
  for (let i = 0; i < size; i++) {
    const a = rows.facts(row, i);
    if (a.end !== undefined && a.end !== 'killed' && bounds.cut === undefined)
      return `${rows.lifeOf(i)} was put out or stopped (${a.end}), and nothing was cut`;
    if (!a.alive || a.unwritten === 0) continue;
    for (let j = i + 1; j < size; j++) {
      const b = rows.facts(row, j);
      // Of two decisions one contains the other.
      const both = a.unwritten & b.unwritten;
      if (b.alive && a.epoch === b.epoch && both !== a.unwritten && both !== b.unwritten)
        return `${rows.lifeOf(i)} decided on ${ranks(a.unwritten)}, ${rows.lifeOf(j)} on ${ranks(b.unwritten)}`;
    }
  }
  return undefined;
}

/** What is wrong with a world in which everything has come to rest. */
export function faultAtRest(rows: Rows, row: Uint32Array): string | undefined {
  const { size } = rows;
  let live = 0;
  for (let rank = 0; rank < size; rank++) if (rows.facts(row, rank).isOn) live |= 1 << rank;
  for (let rank = 0; rank < size; rank++) {
    const { isOn, members, parks, unwritten, troubled, epoch } = rows.facts(row, rank);
    if (!isOn) continue;
    const life = rows.lifeOf(rank);
    const alive = sideOf(rows, row, rank, live);
    const lone = live === 1 << rank && size === 2;
    if ((members & ~alive) !== 0 && !lone) return `${life} counts ${ranks(members & ~alive)} as members`;
    if ((alive & ~members) !== 0) return `${life} does not count ${ranks(alive & ~members)} as members`;
    if (parks) return `${life} has not answered a fence`;
    if (!rows.storeRuns(row) || !rows.reaches(row, rank, size)) continue;
    if (unwritten !== 0) return `${life} has not written what was decided`;
    if (!rows.isCut(row) && troubled) return `${life} is in doubt still`;
    if (epoch !== rows.store(row).epoch) return `${life} does not know the view`;
  }
  return undefined;
}

/** Those that a worker reaches, or who are reached by one of those, and so on; through the store too. */
function sideOf(rows: Rows, row: Uint32Array, rank: number, live: number): number {
  const { size } = rows;
  const others = rows.storeRuns(row) ? live | (1 << size) : live;
  let side = 1 << rank;
  for (let before = 0; before !== side;) {
    before = side;
    for (let a = 0; a <= size; a++)
      for (let b = 0; b <= size; b++)
        if (a !== b && (side & (1 << a)) !== 0 && (others & (1 << b)) !== 0 && touch(rows, row, a, b)) side |= 1 << b;
  }
  return side & ~(1 << size);
}

function touch(rows: Rows, row: Uint32Array, a: number, b: number): boolean {
  return a === rows.size ? rows.reaches(row, b, a) : rows.reaches(row, a, b);
}

function ranks(mask: number): string {
  return [...mask.toString(2)]
    .reverse()
    .flatMap((bit, rank) => (bit === '1' ? [`w${rank}`] : []))
    .join();
}
