/** @file `backwire inspect <endpoint>`: what a group is doing, once or again and again. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Inspector, plainJson, plainText, runningGroups } from '@backwire/rpc/internal';
import { ENDPOINT_HELP, inspectorOptions, parseFlags, seconds } from './flags.ts';
import { groupsText } from './groups-text.ts';
import { inspectText } from './inspect-text.ts';
import { DEFAULT_WATCH_S } from './limits.ts';

const HELP = `usage: backwire inspect [<endpoint>] [flags]

Without an endpoint: the groups of this user on this machine, and their addresses.

Shows the workers of a running group, their sessions, calls in flight with their age, remote references by holder and by
creation site, autograd contexts and budgets. Looking changes nothing: it is no member of the group, and no shutdown waits for it.

${ENDPOINT_HELP}
  --watch[=SECONDS]      again and again (default every second), until Ctrl-C
  --json                 everything, as JSON; with --watch one object a line
`;

/** Resolves with the exit code. @throws UsageError, RpcError when the group cannot be reached. */
export async function inspectCommand(argv: readonly string[]): Promise<number> {
  // A value is optional here, which parseArgs does not know: '--watch' alone is '--watch='.
  const args = argv.map((arg) => (arg === '--watch' ? '--watch=' : arg));
  const { positionals, values } = parseFlags(args, { watch: { type: 'string' }, json: { type: 'boolean' } });
  // Who reads may have had enough: `| head` is no failure of ours. The listener stays, for every further write says so again.
  const enough = new AbortController();
  process.stdout.on('error', () => enough.abort());
  if (values.help === true) {
    process.stdout.write(HELP);
    return 0;
  }
  if (positionals.length === 0 && values.watch === undefined) {
    const groups = runningGroups();
    process.stdout.write(`${values.json === true ? plainJson(groups, 2) : groupsText(groups)}\n`);
    return 0;
  }
  const options = inspectorOptions(positionals, values);
  const everyMs =
    values.watch === undefined
      ? undefined
      : 1000 * (values.watch === '' ? DEFAULT_WATCH_S : seconds('--watch', values.watch));
  const inspector = await Inspector.open(options);
  try {
    if (everyMs === undefined) {
      const look = await inspector.look();
      process.stdout.write(`${values.json === true ? plainJson(look, 2) : inspectText(look)}\n`);
      return 0;
    }
    return await watch(inspector, everyMs, values.json === true, enough);
  } finally {
    await inspector.close();
  }
}

/** Until Ctrl-C. A group that cannot be reached for a while is waited for. */
async function watch(inspector: Inspector, everyMs: number, json: boolean, stop: AbortController): Promise<number> {
  const onSignal = (): void => stop.abort();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, onSignal);
  const clear = process.stdout.isTTY && !json ? '\u001b[H\u001b[2J' : '';
  try {
    let lost = false;
    while (!stop.signal.aborted) {
      const found = await inspector.look().catch((error: unknown) => String(error));
      const gone = typeof found === 'string';
      // Once: it stays true until a look says otherwise.
      if (!gone || !lost) {
        const text = gone ? lostText(found, json) : json ? plainJson(found) : inspectText(found);
        process.stdout.write(`${clear}${text}\n${clear === '' && !json ? '\n' : ''}`);
      }
      lost = gone;
      await sleep(everyMs, undefined, { signal: stop.signal }).catch(() => undefined);
    }
    return 0;
  } finally {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, onSignal);
  }
}

function lostText(error: string, json: boolean): string {
  return json ? plainJson({ error }) : `the group cannot be reached: ${plainText(error)}`;
}
