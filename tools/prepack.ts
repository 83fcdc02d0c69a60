/** @file Runs before `npm pack` and `npm publish` in a package's folder: lets nothing out that was not built. */
import { readFileSync } from 'node:fs';
import { whyNotBuilt } from './sources.ts';

const why = whyNotBuilt(process.cwd());
if (why !== undefined) {
  const { name } = JSON.parse(readFileSync('package.json', 'utf8')) as { name: string };
  console.error(`${name} cannot be packed: ${why}. Run \`npx nx build ${name}\`.`);
  process.exitCode = 1;
}
