/** @file `npm run record:peer`: keeps today's build as a peer that later versions have to get along with (docs/versioning.md). */
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { brotliCompressSync } from 'node:zlib';
import { build } from 'esbuild';

const root = resolve(import.meta.dirname, '..');
const { version } = JSON.parse(readFileSync(resolve(root, 'packages/rpc/package.json'), 'utf8')) as { version: string };
const { outputFiles } = await build({
  entryPoints: [resolve(root, 'apps/e2e/programs/peer.mjs')],
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node20',
  conditions: ['@backwire/source'],
  // Not part of what is spoken, and large.
  external: ['@tensorflow/*', 'koffi', 'redis', 'ws'],
  minify: true,
  legalComments: 'none',
  write: false,
});
const file = resolve(root, `apps/e2e/fixtures/peers/${version}.mjs.br`);
const bytes = brotliCompressSync(outputFiles[0]?.contents ?? '');
writeFileSync(file, bytes);
console.log(`${file}: ${Math.ceil(bytes.byteLength / 1024)} KiB`);
