/** @file The flags that `inspect` and `dashboard` share: where the group is, and how to prove that one may look. */
import { readFileSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { UsageError } from '@backwire/launch';
import type { Security } from '@backwire/rpc';
import { nearestName, runningGroups, splitAddress, type InspectorOptions } from '@backwire/rpc/internal';
import { groupsText } from './groups-text.ts';
import { MAX_SECONDS } from './limits.ts';

const ENDPOINT_FLAGS = {
  group: { type: 'string' },
  security: { type: 'string' },
  'secret-file': { type: 'string' },
  'tls-key': { type: 'string' },
  'tls-cert': { type: 'string' },
  'tls-ca': { type: 'string' },
  timeout: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
} as const;

export const ENDPOINT_HELP = `  <endpoint>             the address that 'backwire run' printed; any group's store (host:port, tcp://, etcd://, redis://,
                         file://, each with ?prefix=), or the address of one of its workers (tcp://, unix://)
  --group NAME           which group, when the store holds several
  --security MODE        psk, hmac, mtls or none, as the group has it (default: what its secret and address ask for)
  --secret-file FILE     the group's secret (default: BACKWIRE_SECRET, BACKWIRE_SECRET_FILE, or that of this user)
  --tls-key, --tls-cert, --tls-ca FILE
                         with --security mtls
  --timeout SECONDS      how long to wait for the store and for each worker (default 3)`;

type Flags = Readonly<Record<string, { readonly type: 'string' | 'boolean'; readonly short?: string }>>;

/** What is made of flags. */
export type Values<F extends Flags> = { readonly [K in keyof F]?: F[K]['type'] extends 'boolean' ? boolean : string };

/** Reads a command line of these flags beside those that are shared. @throws UsageError */
export function parseFlags<F extends Flags>(
  argv: readonly string[],
  own: F,
): { positionals: string[]; values: Values<typeof ENDPOINT_FLAGS> & Values<F> } {
  try {
    return parseArgs({ args: [...argv], allowPositionals: true, options: { ...ENDPOINT_FLAGS, ...own } });
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    const unknown = /^Unknown option '(-[^']*)'/.exec(text)?.[1];
    if (unknown === undefined) throw new UsageError(text);
    const flags = [...Object.keys(ENDPOINT_FLAGS), ...Object.keys(own)];
    const near = nearestName(unknown.replace(/^-+/, ''), flags);
    const advice =
      near === undefined ? `there are ${flags.map((flag) => `--${flag}`).join(', ')}` : `did you mean --${near}?`;
    throw new UsageError(`unknown flag '${unknown}'; ${advice}`);
  }
}

/** @throws UsageError */
export function inspectorOptions(
  positionals: readonly string[],
  values: Values<typeof ENDPOINT_FLAGS>,
): InspectorOptions {
  const [endpoint, ...more] = positionals;
  if (endpoint === undefined) throw new UsageError(`which group?\n${groupsText(runningGroups())}`);
  if (more.length > 0) throw new UsageError(`one endpoint is enough, got '${more.join(' ')}' besides`);
  return {
    endpoint,
    group: values.group,
    security: securityOf(values) ?? runSecret(endpoint),
    timeoutMs: values.timeout === undefined ? undefined : seconds('--timeout', values.timeout) * 1000,
  };
}

/** What a flag says in seconds. @throws UsageError unless it is above 0 and no more than a day. */
export function seconds(flag: string, text: string): number {
  const value = Number(text);
  if (!(value > 0) || value > MAX_SECONDS)
    throw new UsageError(`${flag} takes a number of seconds above 0 and up to ${MAX_SECONDS}, got '${text}'`);
  return value;
}

function securityOf(values: Values<typeof ENDPOINT_FLAGS>): Security | undefined {
  const secretFile = values['secret-file'];
  switch (values.security) {
    case undefined:
      return secretFile === undefined ? undefined : { mode: 'hmac', secretFile };
    case 'psk':
    case 'hmac':
      return secretFile === undefined ? { mode: values.security } : { mode: values.security, secretFile };
    case 'none':
      return { mode: 'none', iUnderstand: true };
    case 'mtls': {
      const { 'tls-key': key, 'tls-cert': cert, 'tls-ca': ca } = values;
      if (key === undefined || cert === undefined || ca === undefined)
        throw new UsageError('--security mtls needs --tls-key, --tls-cert and --tls-ca');
      return { mode: 'mtls', key, cert, ca };
    }
    default:
      throw new UsageError(`--security is psk, hmac, mtls or none, got '${values.security}'`);
  }
}

/** The secret that `backwire run` made for a group on this host, which only this user can read. */
function runSecret(endpoint: string): Security | undefined {
  const { env } = process;
  if ((env['BACKWIRE_SECRET'] ?? '') !== '' || (env['BACKWIRE_SECRET_FILE'] ?? '') !== '') return undefined;
  const port = /^(?:tcp:\/\/)?(?:127\.\d+\.\d+\.\d+|localhost|\[::1\]):(\d+)$/.exec(splitAddress(endpoint).bare)?.[1];
  if (port === undefined) return undefined;
  const path = join(tmpdir(), `backwire-${process.getuid?.() ?? 'user'}`, `run-${port}`);
  try {
    const { uid, mode } = statSync(path);
    if (uid !== process.getuid?.() || (mode & 0o077) !== 0) return undefined;
    return { mode: 'hmac', secret: readFileSync(path, 'utf8').trim() };
  } catch {
    return undefined;
  }
}
