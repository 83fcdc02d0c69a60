/** @file `backwire dashboard <endpoint>`: a live page about a group, on loopback. */
import { UsageError } from '@backwire/launch';
import { Inspector, plainText } from '@backwire/rpc/internal';
import { ENDPOINT_HELP, inspectorOptions, parseFlags, seconds } from '../inspect/flags.ts';
import { DEFAULT_INTERVAL_MS, MIN_INTERVAL_MS } from '../inspect/limits.ts';
import { serveDashboard } from './server.ts';

const HELP = `usage: backwire dashboard <endpoint> [flags]

Serves a live page about a running group on loopback, until Ctrl-C: the workers and what goes on between them, remote references
and autograd contexts over time, a timeline of calls, and failures. Looking changes nothing in the group.

${ENDPOINT_HELP}
  --port N               the port of the page (default: any free one)
  --interval SECONDS     between two looks while a page is open (default 1, at least 0.1)
`;

/** Resolves with the exit code. @throws UsageError, RpcError when the group cannot be reached or the port is taken. */
export async function dashboardCommand(argv: readonly string[]): Promise<number> {
  const { positionals, values } = parseFlags(argv, { port: { type: 'string' }, interval: { type: 'string' } });
  if (values.help === true) {
    process.stdout.write(HELP);
    return 0;
  }
  const { port: givenPort = '0' } = values;
  const port = Number(givenPort);
  if (!/^\d+$/.test(givenPort) || port > 65_535)
    throw new UsageError(`--port takes a whole number from 0 to 65535, got '${givenPort}'; 0 is any free port`);
  const wanted = values.interval === undefined ? DEFAULT_INTERVAL_MS : 1000 * seconds('--interval', values.interval);
  const inspector = await Inspector.open(inspectorOptions(positionals, values));
  try {
    const dashboard = await serveDashboard({ inspector, port, intervalMs: Math.max(wanted, MIN_INTERVAL_MS) });
    process.stdout.write(`the dashboard of group '${plainText(inspector.group)}' is at ${dashboard.url}\n`);
    try {
      await interrupted();
    } finally {
      await dashboard.close();
    }
    return 0;
  } finally {
    await inspector.close();
  }
}

function interrupted(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => resolve());
  });
}
