/** @file Prints what this package writes, for torch to read: `npm run golden -w @backwire/torch` runs it. */
import { writtenGoldens } from '../test/written.ts';

process.stdout.write(JSON.stringify(writtenGoldens()));
