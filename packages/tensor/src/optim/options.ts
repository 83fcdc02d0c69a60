/** @file Options as programs give them to optimisers: what kind each is of. */
import { kindOf } from '../given.ts';
import { rpcName } from '../named.ts';

/** Without what is undefined. */
export function defined(options: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

/** 'optim.SGD'. */
export function nameOf(optimizer: object): string {
  const ctor = optimizer.constructor as { readonly [rpcName]?: unknown; readonly name: string };
  return typeof ctor[rpcName] === 'string' ? ctor[rpcName] : ctor.name;
}

/** @throws TypeError for options that are missing or no object: programs without types may give the learning rate itself. */
export function checkGiven(given: unknown, what: string): void {
  if (typeof given === 'object' && given !== null && !Array.isArray(given)) return;
  const got = given === undefined ? 'none were given' : `got ${kindOf(given)}`;
  throw new TypeError(`${what} needs options, an object such as { lr: 0.01 }; ${got}`);
}

/** @throws TypeError for an option that is of another kind than its default: texts would be computed with. */
export function checkKinds(given: object, defaults: Readonly<Record<string, unknown>>, what: string): void {
  for (const [name, value] of Object.entries(given)) {
    const usual = defaults[name];
    const wanted = Array.isArray(usual)
      ? 'a list of numbers'
      : typeof usual === 'number'
        ? 'a number'
        : typeof usual === 'boolean'
          ? 'true or false'
          : undefined;
    if (value === undefined || wanted === undefined) continue;
    const numbers: unknown = Array.isArray(usual) ? value : [value];
    const fits =
      typeof usual === 'boolean'
        ? typeof value === 'boolean'
        : Array.isArray(numbers) && numbers.every((each) => typeof each === 'number');
    if (!fits) throw new TypeError(`${what}: ${name} is ${wanted}, got ${kindOf(value)}`);
  }
}
