/** @file A program that calls the command as a function and has more to do, for tests: it says on standard error when that is done. */
import { setTimeout as sleep } from 'node:timers/promises';
import { main } from '../src/index.ts';
import { UNREAD_MS } from '../src/limits.ts';

const code = await main(process.argv.slice(2));
await sleep(3 * UNREAD_MS);
process.stderr.write(`still here after ${code}\n`, () => process.exit(7));
