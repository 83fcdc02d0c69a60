/** @file Whom a certificate names: its DNS names, each exactly, and nothing that only looks like one. */
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, test } from 'vitest';
import { Certificates, hasOpenssl } from '../../test/certificates.ts';
import { carriesName, mistaken, workerIn } from './certificate.ts';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** Alternative names in DER: a sequence of [2] IA5String, with whatever bytes. */
function dns(...names: string[]): string {
  const items = names.map((name) => Buffer.concat([Buffer.of(0x82, name.length), Buffer.from(name, 'latin1')]));
  const body = Buffer.concat(items);
  const hex = Buffer.concat([Buffer.of(0x30, body.length), body]).toString('hex');
  return `DER:${hex.match(/../g)?.join(':') ?? ''}`;
}

describe.skipIf(!hasOpenssl)('the names of a certificate (made with openssl)', () => {
  const certificates = hasOpenssl ? new Certificates() : undefined;
  afterAll(() => certificates?.remove());
  let made = 0;
  const certificate = (alternative: string | undefined, subject = 'w1'): X509Certificate => {
    const name = `cert-${made++}`;
    certificates?.make(name, { subject, alternative });
    return new X509Certificate(readFileSync(certificates?.path(`${name}.pem`) ?? ''));
  };
  const all = [
    'w1',
    'W1',
    'w',
    'w10',
    'evil',
    '*',
    '',
    'corp',
    '.corp',
    'a.corp',
    'DNS:w1',
    'team:w1',
    '10.0.0.1',
    'w1\0',
    'w1\0evil',
  ];
  const carried = (one: X509Certificate): string[] => all.filter((name) => carriesName(one, name));

  test.each<[string, string, string[]]>([
    ['one', 'DNS:w1', ['w1']],
    ['one of several', 'DNS:evil,DNS:w1,DNS:a.corp', ['w1', 'evil', 'a.corp']],
    ['one among other kinds', 'URI:http://w10/,DNS:w1,email:w@corp,IP:10.0.0.1', ['w1']],
    ['a name of many', `${Array.from({ length: 300 }, (_, i) => `DNS:n${i}`).join(',')},DNS:w1`, ['w1']],
    ['a name with a colon', dns('team:w1'), ['team:w1']],
    ['capitals', 'DNS:W1', ['W1']],
  ])('are its DNS names: %s', (_, alternative, names) => {
    expect(carried(certificate(alternative))).toEqual(names);
  });

  test.each<[string, string | undefined]>([
    ['no alternative name, and the common name', undefined],
    ['a URI whose path holds one', 'URI:spiffe://corp/team-a/DNS:w1'],
    ['a URI with a comma', '@n\n[n]\nURI.1=http://corp/\\,DNS:w1'],
    ['a URI with a comma and a space', '@n\n[n]\nURI.1=http://corp/\\, DNS:w1'],
    ['a URI with a quote', '@n\n[n]\nURI.1=http://corp/\\"\\, DNS:w1'],
    ['an e-mail address', 'email:w1'],
    ['an address', 'IP:10.0.0.1'],
    ['another name', 'otherName:1.2.3.4;UTF8:w1'],
    ['another name that is said to be one', 'otherName:1.3.6.1.5.5.7.8.5;UTF8:DNS:w1'],
    ['a directory name', 'dirName:n\n[n]\nCN=w1'],
    ['a registered id', 'RID:1.2.3'],
    ['a wildcard', 'DNS:*'],
    ['a wildcard of part of it', 'DNS:w*'],
    ['a wildcard of a domain', 'DNS:*.corp'],
  ])('are not: %s', (_, alternative) => {
    expect(carried(certificate(alternative)).filter((name) => name !== '*')).toEqual([]);
  });

  test.each<[string, string[], string[]]>([
    ['a zero byte behind it', ['w1\0'], []],
    ['a zero byte and more behind it', ['w1\0evil'], []],
    ['a zero byte before it', ['\0w1'], []],
    ['a space around it', [' w1', 'w1 '], []],
    ['a comma before it', ['evil,DNS:w1', 'evil, DNS:w1'], []],
    ['quotes around it', ['"w1"', "'w1'"], []],
    ['a quote that is left open', ['"', 'DNS:w1', '"'], ['DNS:w1']],
    ['a line break before it', ['evil\nDNS:w1'], []],
    ['bytes that are no ASCII', ['w1\xe4', '\xffw1'], []],
    ['no character at all', [''], []],
    ['a right one beside wrong ones', ['w1\0evil', 'evil, DNS:w10', 'w1'], ['w1']],
  ])('may have any bytes: %s', (_, names, expected) => {
    expect(carried(certificate(dns(...names)))).toEqual(expected);
  });
});

describe('a claim', () => {
  const certified = { encrypted: true, authenticated: true, carries: (name: string) => name === 'w1' };

  test('is of the worker before the last #', () => {
    expect(['w1#5', 'a#w1#5', '#5', 'w1', '', '?inspect/1'].map((text) => workerIn(bytes(text)))).toEqual([
      'w1',
      'a#w1',
      '',
      undefined,
      undefined,
      undefined,
    ]);
  });

  test('is mistaken when the certificate does not carry that name', () => {
    expect(mistaken(certified, bytes('w1#5'), 'tls://x')).toBeUndefined();
    for (const claim of ['w2#5', 'a#w1#5', '#5', 'W1#5'])
      expect(mistaken(certified, bytes(claim), 'tls://x'), claim).toMatchObject({ code: 'unauthenticated' });
    expect(mistaken(certified, bytes('?inspect/1'), 'tls://x')).toBeUndefined();
    expect(mistaken({ encrypted: true, authenticated: true }, bytes('w2#5'), 'tls://x')).toBeUndefined();
  });
});
