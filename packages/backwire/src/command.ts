/** @file Which command was meant: to start a group, or to look at one. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RpcError } from '@backwire/rpc';
import { PACKAGE_FOLDER } from './package-folder.ts';

const LOOKING = `
usage: backwire inspect [<endpoint>] [--watch] [--json]
       backwire dashboard <endpoint> [--port N]

Shows what a running group is doing: as text, or as a live page. 'backwire inspect --help' says how the group is found;
without an endpoint it lists the groups of this machine.

usage: backwire --version
`;

/**
 * Runs the command and resolves with its exit code: 2 for a mistake on the command line, 1 when a group cannot be started or reached,
 * else what the command says. Messages go to standard error. Never rejects for any of these.
 *
 * @param argv what follows the command's name.
 */
export async function command(argv: readonly string[]): Promise<number> {
  const [name, ...rest] = argv;
  // Nobody has to read what is said (`| head`).
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
  try {
    switch (name) {
      // Each loads what it needs: some of them are run very often.
      case 'inspect':
        return await (await import('./inspect/inspect-command.ts')).inspectCommand(rest);
      case 'dashboard':
        return await (await import('./dashboard/dashboard-command.ts')).dashboardCommand(rest);
      case 'version':
      case '--version':
      case '-V':
        process.stdout.write(`${version()}\n`);
        return 0;
      default: {
        const code = await (await import('./run-command.ts')).runCommand(argv);
        if (name === undefined || name === 'help' || name === '--help' || name === '-h') process.stdout.write(LOOKING);
        return code;
      }
    }
  } catch (error) {
    // By their names: the classes are in packages that may not be loaded.
    if (isNamed(error, 'UsageError')) {
      process.stderr.write(`backwire: ${error.message}\nSee 'backwire ${name ?? ''} --help'.\n`);
      return 2;
    }
    if (isRpcError(error)) {
      process.stderr.write(`backwire: ${error.message}${adviceFor(error)}\n`);
      return 1;
    }
    throw error;
  }
}

function isNamed(error: unknown, name: string): error is Error {
  return error instanceof Error && error.name === name;
}

function isRpcError(error: unknown): error is RpcError {
  return isNamed(error, 'RpcError');
}

function adviceFor({ code }: RpcError): string {
  return code === 'unauthenticated'
    ? "; give the group's secret by BACKWIRE_SECRET, BACKWIRE_SECRET_FILE or --secret-file"
    : '';
}

function version(): string {
  const text = readFileSync(join(PACKAGE_FOLDER, 'package.json'), 'utf8');
  return String((JSON.parse(text) as { version: unknown }).version);
}
