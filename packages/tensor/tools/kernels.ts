/** @file `npm run generate`: compiles `assembly/` to WebAssembly and writes it into `src/gen/simd.ts`. */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { moduleText } from './compile-kernels.ts';

const file = fileURLToPath(new URL('../src/gen/simd.ts', import.meta.url));
writeFileSync(file, moduleText());
