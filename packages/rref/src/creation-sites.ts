/** @file Where RRefs were made, when asked for: the lines of the program that a leak report names. */
import { CREATION_SITE_FRAMES } from './limits.ts';

/** Lines of this package are of no interest to who looks for a leak. */
const OWN_FILES = /packages\/rref\/|@backwire\/rref\//;

export class CreationSites {
  private readonly enabled: boolean;
  private readonly places = new WeakMap<object, string>();

  constructor(enabled: boolean) {
    this.enabled = enabled;
  }

  record(key: object): void {
    if (!this.enabled || this.places.has(key)) return;
    const lines = (new Error().stack ?? '').split('\n').slice(1);
    const foreign = lines.filter((line) => !OWN_FILES.test(line) || line.includes('.test.'));
    this.places.set(
      key,
      foreign
        .slice(0, CREATION_SITE_FRAMES)
        .map((line) => line.trim())
        .join(' < '),
    );
  }

  of(key: object | undefined): string | undefined {
    return key === undefined ? undefined : this.places.get(key);
  }
}
