/** @file Whom a certificate names. */
import type { X509Certificate } from 'node:crypto';
import { attempt } from '../base/attempt.ts';
import { RpcError } from '../base/errors.ts';
import type { Protection } from './protection.ts';

/**
 * Whether one of the DNS names among the certificate's alternative names is `name`, exactly. Not counted: names of other kinds (a URI that
 * contains 'DNS:w1'), the common name, wildcards.
 */
export function carriesName(certificate: X509Certificate, name: string): boolean {
  // OpenSSL compares parsed names; the text of them that Node prints was not always free of ambiguity. It ignores case and takes a
  // leading dot for any subdomain, but says what it has found. It throws for what is no name at all: one with a zero byte.
  return attempt(() => certificate.checkHost(name, EXACT)) === name;
}

const EXACT = { subject: 'never', wildcards: false, partialWildcards: false } as const;

const decoder = new TextDecoder();

/** The name in a claim 'name#incarnation'; undefined in that of somebody who claims to be no worker. */
export function workerIn(claim: Uint8Array): string | undefined {
  // A dialer goes on with whom it means.
  const text = decoder.decode(claim).split(' ', 1)[0] as string;
  const at = text.lastIndexOf('#');
  return at < 0 ? undefined : text.slice(0, at);
}

/** Why what a peer claims to be is not what its certificate says; undefined where there is none, or no worker is claimed. */
export function mistaken({ carries }: Protection, claim: Uint8Array, remote: string): RpcError | undefined {
  const name = workerIn(claim);
  if (carries === undefined || name === undefined || carries(name)) return undefined;
  return new RpcError(
    'unauthenticated',
    `the certificate of ${remote} is not worker '${name}'s: none of its DNS names is that (a subject or a URI does not count)`,
  );
}
