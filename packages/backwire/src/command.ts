/** @file Which command was meant: to start a group, or to look at one. */
import { readFileSync } from 'node:fs';
import { main, UsageError } from '@backwire/launch';
import { RpcError } from '@backwire/rpc';
import { dashboardCommand } from './dashboard/dashboard-command.ts';
import { inspectCommand } from './inspect/inspect-command.ts';

const LOOKING = `
usage: backwire inspect <endpoint> [--watch] [--json]
       backwire dashboard <endpoint> [--port N]

Shows what a running group is doing: as text, or as a live page. 'backwire inspect --help' says how the group is found.

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
  try {
    switch (name) {
      case 'inspect':
        return await inspectCommand(rest);
      case 'dashboard':
        return await dashboardCommand(rest);
      case 'version':
      case '--version':
      case '-V':
        process.stdout.write(`${version()}\n`);
        return 0;
      default: {
        const code = await main(argv);
        if (name === undefined || name === 'help' || name === '--help' || name === '-h') process.stdout.write(LOOKING);
        return code;
      }
    }
  } catch (error) {
    if (error instanceof UsageError) {
      process.stderr.write(`backwire: ${error.message}\nSee 'backwire ${name ?? ''} --help'.\n`);
      return 2;
    }
    if (error instanceof RpcError) {
      process.stderr.write(`backwire: ${error.message}${adviceFor(error)}\n`);
      return 1;
    }
    throw error;
  }
}

function adviceFor({ code }: RpcError): string {
  return code === 'unauthenticated'
    ? "; give the group's secret by BACKWIRE_SECRET, BACKWIRE_SECRET_FILE or --secret-file"
    : '';
}

function version(): string {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8');
  return String((JSON.parse(text) as { version: unknown }).version);
}
