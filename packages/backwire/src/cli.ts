#!/usr/bin/env node
/** @file The `backwire` command. Nothing is imported before it is known that this Node can run it, and nothing that the command does not need. */

/** The first version in which modules can be required. */
const LEAST = [20, 19] as const;

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < LEAST[0] || (major === LEAST[0] && minor < LEAST[1])) {
  process.stderr.write(`backwire: Node ${LEAST.join('.')} or newer is needed; this is Node ${process.versions.node}\n`);
  process.exitCode = 1;
} else {
  void import('./command.ts').then(async ({ command }) => {
    process.exitCode = await command(process.argv.slice(2));
  });
}
