/** @file The umbrella has everything of every package, and what its readme names. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as distAutograd from '@backwire/dist-autograd';
import * as launch from '@backwire/launch';
import * as profiler from '@backwire/profiler';
import * as rpc from '@backwire/rpc';
import * as rref from '@backwire/rref';
import * as tensor from '@backwire/tensor';
import * as wire from '@backwire/wire';
import { expect, test } from 'vitest';
import * as browser from './browser.ts';
import * as umbrella from './index.ts';
import { PACKAGE_FOLDER } from './package-folder.ts';

/** Its own, with the extensions installed. */
const OWN = new Set(['initRpc', 'createAgent']);
/** What runs a command line is no function of a library. */
const COMMAND = new Set(['main']);

test.each(Object.entries({ tensor, wire, rpc, rref, launch }))(
  'everything of %s is in it by its own name, and is the same',
  (_, own: Record<string, unknown>) => {
    const names = Object.keys(own).filter((name) => !OWN.has(name) && !COMMAND.has(name));
    expect(names.length).toBeGreaterThan(2);
    const there = umbrella as Record<string, unknown>;
    expect(names.filter((name) => there[name] !== own[name])).toEqual([]);
  },
);

test('dist-autograd and profiler are in it as a whole', () => {
  expect({ ...umbrella.distAutograd }).toEqual({ ...distAutograd });
  expect({ ...umbrella.profiler }).toEqual({ ...profiler });
});

test('pages have all of it but launch', () => {
  const names = Object.keys(umbrella).filter((name) => !Object.hasOwn(launch, name));
  expect(Object.keys(browser).sort()).toEqual(names.sort());
});

test('every name in the readme is exported from where the readme says', () => {
  const packages: Record<string, Record<string, unknown>> = {
    '@backwire/tensor': tensor,
    '@backwire/wire': wire,
    '@backwire/rpc': rpc,
    '@backwire/rref': rref,
    '@backwire/launch': launch,
    '@backwire/dist-autograd': { distAutograd },
    '@backwire/profiler': { profiler },
  };
  const readme = readFileSync(join(PACKAGE_FOLDER, 'README.md'), 'utf8');
  const rows = [...readme.matchAll(/^\| `(@backwire\/[\w-]+)` +\| (.*) \|$/gm)];
  expect(rows.map(([, name]) => name)).toEqual(Object.keys(packages));
  const missing: string[] = [];
  for (const [, from = '', names = ''] of rows)
    for (const [, path = ''] of names.matchAll(/`([\w.]+)`/g)) {
      if (read(umbrella, path) === undefined || read(packages[from], path) === undefined)
        missing.push(`${from}: ${path}`);
    }
  expect(missing).toEqual([]);
});

/** What a dotted path leads to. */
function read(from: unknown, path: string): unknown {
  return path.split('.').reduce((at, name) => (at as Record<string, unknown> | undefined)?.[name], from);
}
