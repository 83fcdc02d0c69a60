/** @file The browser of the tests, where one is installed. */
import { existsSync } from 'node:fs';

/** Its program: what BACKWIRE_CHROMIUM names, else where systems install it; undefined where there is none. */
export const CHROMIUM: string | undefined = [
  process.env['BACKWIRE_CHROMIUM'],
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
].find((path) => path !== undefined && existsSync(path));

/** How it is started. Its sandbox needs rights that containers do not have. */
export const chromiumOptions = { executablePath: CHROMIUM ?? '', args: ['--no-sandbox'] };
