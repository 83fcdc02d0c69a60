/**
 * @file `npm run docs`: builds the site into apps/site/out/site and checks it; ends with 1 when something is wrong.
 *
 *     --update         copies the regions of files that code blocks name into the documents first
 *     --no-reference   takes the API reference of the last build: for who writes pages
 *     --no-site        builds nothing: code blocks and doc comments alone are checked (`npm run docs:check`)
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { buildSite } from './build.ts';
import { check, readMaterial, summary } from './check.ts';
import { updateRegions } from './regions.ts';
import { documents, readDocument, root } from './repository.ts';

const { values } = parseArgs({
  options: {
    update: { type: 'boolean', default: false },
    reference: { type: 'boolean', default: true },
    site: { type: 'boolean', default: true },
  },
  allowNegative: true,
});

if (values.update)
  for (const document of documents()) {
    const before = readDocument(document);
    const after = updateRegions(before);
    if (after !== before) writeFileSync(join(root, document), after);
  }
const material = readMaterial();
const built = values.site ? await buildSite(material.names, { reference: values.reference }) : undefined;
const findings = await check(material, built);
for (const fault of findings.faults) console.log(fault);
console.log(summary(findings));
process.exitCode = findings.faults.length === 0 ? 0 : 1;
