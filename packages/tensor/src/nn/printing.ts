/** @file What a module is printed as: its class, its tensors with their shapes, its settings, and the modules inside. */
import type { Tensor } from '../tensor.ts';

/** Longer lists are passed over, */
const MOST_NUMBERS = 8;
/** and of longer texts only the beginning is shown. */
const MOST_CHARACTERS = 40;

/** The method of modules that says what their settings are. Programs may name a field of theirs as they like. */
export const SETTINGS = Symbol('settings');

/** Settings by name; '' for one that has none. Values that are no settings are passed over; those inside of plain objects count. */
export type Settings = readonly (readonly [string, unknown])[];

/** What is shown of a module. */
export interface Shown {
  readonly name: string;
  /** Parameters and buffers by name. */
  readonly tensors: readonly (readonly [string, Tensor])[];
  readonly settings: Settings;
  /** The texts of the modules inside, by name. */
  readonly children: readonly (readonly [string, string])[];
}

export function moduleText({ name, tensors, settings, children }: Shown): string {
  const shapes = tensors.map(([key, { shape }]) => `${key}: [${shape.join(', ')}]`);
  const own = [...shapes, ...settings.flatMap(settingTexts)].join(', ');
  if (children.length === 0) return `${name}(${own})`;
  const lines = children.map(([key, text]) => `(${key}): ${text.replaceAll('\n', '\n  ')}`);
  return `${name}(\n  ${[...(own === '' ? [] : [own]), ...lines].join('\n  ')}\n)`;
}

function settingTexts([key, value]: readonly [string, unknown]): string[] {
  if (isPlain(value))
    return Object.entries(value).flatMap(([name, one]) => (isPlain(one) ? [] : settingTexts([name, one])));
  if (!isSetting(value)) return [];
  return [key === '' ? settingText(value) : `${key}: ${settingText(value)}`];
}

function isPlain(value: unknown): value is object {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

function isSetting(value: unknown): boolean {
  if (Array.isArray(value))
    return value.length > 0 && value.length <= MOST_NUMBERS && value.every((one) => typeof one === 'number');
  return typeof value === 'number' || typeof value === 'string' || typeof value === 'boolean';
}

function settingText(value: unknown): string {
  if (typeof value === 'string' && value.length > MOST_CHARACTERS) return `'${value.slice(0, MOST_CHARACTERS)}…'`;
  return typeof value === 'string' ? `'${value}'` : Array.isArray(value) ? `[${value.join(', ')}]` : String(value);
}
