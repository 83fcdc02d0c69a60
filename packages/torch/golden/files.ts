/** @file Prints files that this package saves, for torch to load: `npm run golden -w @backwire/torch` runs it. */
import { savedFiles } from '../test/saved.ts';

process.stdout.write(JSON.stringify(savedFiles()));
