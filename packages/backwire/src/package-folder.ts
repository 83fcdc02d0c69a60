/** @file Where this package is installed. */
import { join } from 'node:path';

/** Above `src`, and above `dist`. */
export const PACKAGE_FOLDER = join(import.meta.dirname, '..');
