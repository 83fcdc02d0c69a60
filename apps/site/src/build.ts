/** @file Builds the site: stages the documents, writes the reference and its index, and runs VitePress. */
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'vitepress';
import { writeReference } from './api-reference.ts';
import { placesOf, writeIndex, writePlaces } from './name-index.ts';
import type { PublicName } from './public-names.ts';
import { out, site } from './repository.ts';
import { pages, REFERENCE, stage } from './stage.ts';

/** Answers the folder of the site. Without `reference` that of the last build is taken, if there is one. */
export async function buildSite(names: readonly PublicName[], { reference }: { reference: boolean }): Promise<string> {
  const api = join(pages, REFERENCE);
  stage();
  if (reference || !existsSync(api)) {
    rmSync(api, { recursive: true, force: true });
    await writeReference(api);
    const places = placesOf(api, names);
    writeIndex(api, names, places);
    writePlaces(join(out, 'places.json'), places);
  }
  await build(site);
  return join(out, 'site');
}
