/** @file `npm run generate`: writes what public functions, methods and classes take into `src/gen/arguments.ts`. */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { argumentsText } from './argument-kinds.ts';

const file = fileURLToPath(new URL('../src/gen/arguments.ts', import.meta.url));
writeFileSync(file, await argumentsText());
process.exit();
