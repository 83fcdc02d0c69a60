/** @file Work that is started in order, as much at once as there is room for. */
import type { Room } from './exchange.ts';

/**
 * Starts each in order, as soon as there is room for it beside those that are under way, or none is.
 * @returns what each gives, in order. @throws what the first that failed did; none is started after that.
 */
export async function startInOrder<I extends { readonly bytes: number }, T>(
  items: readonly I[],
  room: Room,
  start: (item: I) => Promise<T>,
): Promise<T[]> {
  let underWay = 0;
  let bytes = 0;
  let failed = false;
  let oneIsOver = (): void => undefined;
  const all: Promise<T>[] = [];
  for (const item of items) {
    const fits = (): boolean => underWay === 0 || (underWay < room.buckets && bytes + item.bytes <= room.bytes);
    while (!fits() && !failed) await new Promise<void>((resolve) => (oneIsOver = resolve));
    if (failed) break;
    underWay++;
    bytes += item.bytes;
    const one = start(item);
    all.push(one);
    const end = (): void => {
      underWay--;
      bytes -= item.bytes;
      oneIsOver();
    };
    one.then(end, () => {
      failed = true;
      end();
    });
  }
  return Promise.all(all);
}
