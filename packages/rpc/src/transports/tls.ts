/** @file TCP under TLS 1.3, with the group's secret as a pre-shared key or with certificates of both sides. */
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import {
  connect,
  createSecureContext,
  createServer,
  type ConnectionOptions,
  type TLSSocket,
  type TlsOptions,
} from 'node:tls';
import { runAtRoot } from '@backwire/tensor/internal';
import { RpcError } from '../base/errors.ts';
import { carriesName } from '../security/certificate.ts';
import { HANDSHAKE_TIMEOUT_MS, rejection } from '../security/handshake.ts';
import { deriveKey, keyIdIn, type Key, type Keys } from '../security/secret.ts';
import { listenerAt } from './connection-parts.ts';
import { hostText, parseHostPort } from './dialling.ts';
import { KEEP_ALIVE_MS, dialWithin, listening, strangersOf } from './listen.ts';
import { wrapSocket } from './socket.ts';
import { endpointOf } from './tcp.ts';
import { UNPROTECTED, type Protection } from '../security/protection.ts';
import type { Connection, DialOptions, ListenOptions, Listener, Transport } from './transport.ts';

/** What the two sides of a TLS connection prove: plain data, so that it can be posted to a thread. */
export type TlsProof =
  | { readonly mode: 'psk'; readonly group: string; readonly keys: Keys }
  /** PEM, or the path of a file that holds it. */
  | { readonly mode: 'mtls'; readonly key: string; readonly cert: string; readonly ca: string };

/** The one suite whose hash is that of an external pre-shared key; also the fastest with hardware AES. */
const TLS_CIPHER = 'TLS_AES_128_GCM_SHA256';
const BINDING_LABEL = 'EXPORTER-backwire-channel-binding';
const BINDING_BYTES = 32;
/** How long a stranger who is refused may take to hang up. */
const REFUSED_MS = 1_000;

type OnConnection = (connection: Connection) => void;

const proofs = new WeakMap<Transport, TlsProof>();

/**
 * 'tls://host:port'. A TLSSocket copies what it receives, in records of 16 KiB: about a third of the speed of plain TCP.
 * @throws RpcError 'failed-precondition' for what the runtime's TLS cannot do.
 */
export function tlsTransport(proof: TlsProof): Transport {
  refuseWhere(proof.mode, process.versions);
  const transport: Transport = {
    name: 'tls',
    domain: '',
    isViable: () => true,
    // At the root: what is accepted later must not live in the caller's ambient state.
    listen: (options, onConnection) => runAtRoot(() => start(proof, options, onConnection)),
    dial: (endpoint, options) => dial(proof, endpoint, options),
  };
  proofs.set(transport, proof);
  return transport;
}

/** What the two sides of a connection of `transport` prove; undefined when it is not TLS. */
export function tlsProofOf(transport: Transport): TlsProof | undefined {
  return proofs.get(transport);
}

/**
 * Beneath the interface of Node these have BoringSSL, which takes no key from outside for TLS 1.3, or rustls, which does not tell what
 * binds a handshake to its connection either; they pass over what they are given for it without a word.
 */
export function refuseWhere(mode: TlsProof['mode'], versions: Partial<Record<string, string>>): void {
  const { bun, deno, electron } = versions;
  const away = "or run on Node, or keep to one host or a network of your own with { mode: 'hmac', secret }, which proves the secret and encrypts nothing"; // prettier-ignore
  if (deno !== undefined)
    throw new RpcError(
      'failed-precondition',
      `security of mode '${mode}' is TLS bound to the handshake of the group, which Deno ${deno} has no way to do: run on Bun with certificates, ${away}`,
    );
  const runtime = bun === undefined ? electron && `Electron ${electron}` : `Bun ${bun}`;
  if (mode === 'psk' && runtime !== undefined)
    throw new RpcError(
      'failed-precondition',
      `security of mode 'psk' is TLS with a shared secret, which ${runtime} does not have: give certificates ({ mode: 'mtls', key, cert, ca }), ${away}`,
    );
}

/** How a key is named on the wire: two are good while keys are being changed. */
function pskIdentity(group: string, key: Key): string {
  return `${group}#${keyIdIn(key, group)}`;
}

function pskOf(group: string, key: Key): Uint8Array {
  return deriveKey(key, group, 'tls-psk');
}

async function start(proof: TlsProof, options: ListenOptions, onConnection: OnConnection): Promise<Listener> {
  const host = options.host ?? '127.0.0.1';
  const where = `tls://${hostText(host)}:${options.port ?? 0}`;
  const server = createServer({
    ...serverOptions(proof),
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_MS,
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
  });
  const strangers = strangersOf(server);
  server.on('secureConnection', (socket) => {
    const about = { kind: 'tls', remote: `tls://${hostText(socket.remoteAddress ?? '?')}:${socket.remotePort ?? 0}` };
    if (proof.mode === 'mtls' && !isTrusted(socket)) {
      refuse(socket, about);
      return;
    }
    // The plain socket below is not told which TLS socket it carries; its address tells.
    for (const stranger of strangers)
      if (stranger.remotePort === socket.remotePort && stranger.remoteAddress === socket.remoteAddress)
        strangers.delete(stranger);
    let protection: Protection;
    try {
      protection = protectionOf(socket, proof);
    } catch {
      // It went away between its last record and now.
      socket.destroy();
      return;
    }
    onConnection(wrapSocket(socket, { ...about, protection }));
  });
  // A stranger's failed handshake concerns nobody else.
  server.on('tlsClientError', (_error, socket) => socket.destroy());
  await listening(server, { host, port: options.port ?? 0 }, where);
  return listenerAt(endpointOf('tls', server, host, options.advertise), options.signal, () => void server.close());
}

async function dial(proof: TlsProof, endpoint: string, options: DialOptions = {}): Promise<Connection> {
  const { host, port } = parseHostPort(endpoint, 'tls');
  let dialled: TLSSocket | undefined;
  const failed = (error: NodeJS.ErrnoException): RpcError => {
    // Whatever is wrong with the certificate of the other end, it will be wrong again: a purpose or an authority that is none, too.
    const isBad = Boolean(dialled?.authorizationError) || isCertificateError(error);
    const refused = isBad || error.code?.startsWith('ERR_SSL') === true || error.code?.startsWith('ERR_TLS') === true;
    const why = refused ? `the secrets or certificates do not fit${isBad ? ` (${error.message})` : ''}` : error.message;
    return new RpcError(refused ? 'unauthenticated' : 'unavailable', `cannot connect to ${endpoint}: ${why}`, {
      cause: error,
    });
  };
  return dialWithin(options, endpoint, failed, () => {
    const socket = (dialled = connect({ host, port, ...clientOptions(proof) }));
    socket.setNoDelay(true);
    socket.setKeepAlive(true, KEEP_ALIVE_MS);
    const finish = (): ReturnType<typeof wrapSocket> => {
      // A server that answered with a certificate instead of the key proved nothing to us.
      if (proof.mode === 'psk' && (!socket.isSessionReused() || hasCertificate(socket))) {
        throw new RpcError('unauthenticated', `${endpoint} did not use the pre-shared key`);
      }
      return wrapSocket(socket, { kind: 'tls', remote: endpoint, protection: protectionOf(socket, proof) });
    };
    return { socket, ready: 'secureConnect', finish };
  });
}

/**
 * Whether the runtime itself hangs up on who shows no certificate of the authority. With TLS 1.3 a dialer is through before its certificate
 * is judged: Node would hang up without a word, which looks like a network that failed, and is tried again. So there `isTrusted` judges.
 */
const HANGS_UP = process.versions['bun'] !== undefined;

/**
 * Whether a dialer has shown a certificate that holds, now: one that came without may resume its TLS session later, which proves nothing,
 * and workers begin a new one each time.
 */
function isTrusted(socket: TLSSocket): boolean {
  return HANGS_UP || (socket.authorized && !socket.isSessionReused() && socket.getPeerX509Certificate() !== undefined);
}

/**
 * Tells a dialer no, in a record of the handshake, and hangs up. It stays a stranger until its socket is closed. Who has no certificate at
 * all is no worker, and is told nothing.
 */
function refuse(socket: TLSSocket, about: { kind: string; remote: string }): void {
  if (socket.getPeerX509Certificate() === undefined) {
    socket.destroy();
    return;
  }
  const connection = wrapSocket(socket, { ...about, protection: UNPROTECTED });
  connection.write([rejection()]);
  connection.close();
  // It is read until it ends, so that the refusal arrives; but it is not waited for.
  const timer = setTimeout(() => socket.destroy(), REFUSED_MS);
  socket.once('close', () => clearTimeout(timer));
}

function serverOptions(proof: TlsProof): TlsOptions {
  if (proof.mode === 'mtls') return { ...certificates(proof), requestCert: true, rejectUnauthorized: HANGS_UP };
  const known = new Map(proof.keys.map((key) => [pskIdentity(proof.group, key), pskOf(proof.group, key)]));
  return {
    minVersion: 'TLSv1.3',
    ciphers: TLS_CIPHER,
    pskCallback: (_socket, identity) => known.get(identity) ?? null,
  };
}

function clientOptions(proof: TlsProof): ConnectionOptions {
  // Workers are dialled by address; their names are in the certificate, and are compared with what they claim to be.
  const base = { rejectUnauthorized: true, checkServerIdentity: () => undefined };
  if (proof.mode === 'mtls') return { ...base, ...certificates(proof) };
  const key = proof.keys[0];
  const shown = { psk: pskOf(proof.group, key), identity: pskIdentity(proof.group, key) };
  return { ...base, minVersion: 'TLSv1.3', ciphers: TLS_CIPHER, pskCallback: () => shown };
}

function certificates({ key, cert, ca }: TlsProof & { mode: 'mtls' }): {
  key: string;
  cert: string;
  ca: string;
  minVersion: 'TLSv1.3';
} {
  const read = { key: pem(key), cert: pem(cert), ca: pem(ca), minVersion: 'TLSv1.3' } as const;
  try {
    createSecureContext(read);
  } catch (cause) {
    throw unusable('security.cert and security.key', cause);
  }
  // What is no certificate there is passed over without a word: then nobody would be trusted.
  const authorities = read.ca.match(CERTIFICATE) ?? [];
  if (authorities.length === 0) throw unusable('security.ca', new Error('there is no certificate in it'));
  for (const each of authorities)
    try {
      new X509Certificate(each);
    } catch (cause) {
      throw unusable('security.ca', cause);
    }
  return read;
}

const CERTIFICATE = /-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----[^-]*-----END (?:X509 |TRUSTED )?CERTIFICATE-----/g;

function unusable(what: string, cause: unknown): RpcError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new RpcError('invalid-argument', `${what} cannot be used: ${why}`, { cause });
}

function pem(textOrPath: string): string {
  if (textOrPath.includes('-----BEGIN')) return textOrPath;
  try {
    return readFileSync(textOrPath, 'utf8');
  } catch (error) {
    throw new RpcError('invalid-argument', `'${textOrPath}' is neither PEM nor a file that can be read`, {
      cause: error,
    });
  }
}

function protectionOf(socket: TLSSocket, proof: TlsProof): Protection {
  const binding = new Uint8Array(socket.exportKeyingMaterial(BINDING_BYTES, BINDING_LABEL, Buffer.alloc(0)));
  const base = { encrypted: true, authenticated: true, binding };
  if (proof.mode !== 'mtls') return base;
  const certificate = socket.getPeerX509Certificate();
  return { ...base, carries: (worker) => certificate !== undefined && carriesName(certificate, worker) };
}

function hasCertificate(socket: TLSSocket): boolean {
  return Object.keys(socket.getPeerCertificate() ?? {}).length > 0;
}

function isCertificateError(error: NodeJS.ErrnoException): boolean {
  return error.code !== undefined && /CERT|SELF_SIGNED|UNABLE_TO_VERIFY/.test(error.code);
}
