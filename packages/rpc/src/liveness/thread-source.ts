/** @file The program of the liveness thread, as text: it has to run from sources, from a build, and inside a bundle. */

/**
 * Plain JavaScript for `new Worker(text, { eval: true })`. It keeps a connection of its own to the store, renews the lease there while
 * the main thread computes, and sets a key to how long ago (in ms) the main loop last turned.
 *
 * workerData: a LeaseTicket, everyMs, and `tick`: shared memory with the time (hrtime) of the main loop's last turn. It posts 'renewed'
 * and 'lost'. The bytes are those of security/handshake.ts, stores/protocol.ts and stores/redis-script.ts; tests run both sides
 * against each other.
 */
export const LIVENESS_THREAD_SOURCE = String.raw`
'use strict';
const { workerData: data, parentPort } = require('node:worker_threads');
const net = require('node:net');
const tls = require('node:tls');
const crypto = require('node:crypto');
const fs = require('node:fs');

const HEAD = 8;
const tick = new BigInt64Array(data.tick);
const ageMs = () => Math.max(0, Math.round(Number(process.hrtime.bigint() - Atomics.load(tick, 0)) / 1e6));

let stopped = false;
let release = () => undefined;
function stop() {
  stopped = true;
  release();
  parentPort.close();
}
function renewed() { parentPort.postMessage('renewed'); }
function lost() {
  parentPort.postMessage('lost');
  stop();
}

// --- an embedded store

function record(type, ...parts) {
  const body = Buffer.concat(parts);
  const head = Buffer.from([0x42, 0x4b, 0x57, 0x52, 1, type, body.length & 255, body.length >> 8]);
  return Buffer.concat([head, body]);
}

function proof(label, hello, challenge) {
  const binding = data.tls === null ? Buffer.alloc(0) : socket.exportKeyingMaterial(32, 'EXPORTER-backwire-channel-binding', Buffer.alloc(0));
  const th = crypto.createHash('sha256').update(hello).update(challenge).update(binding).digest();
  if (data.mode === 'plain') return crypto.createHash('sha256').update(label + '\0' + data.group + '\0').update(th).digest();
  return crypto.createHmac('sha256', data.key).update(label).update(th).digest();
}

function u32(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}
const blob = (bytes) => Buffer.concat([u32(bytes.length), bytes]);

function hold() {
  const age = Buffer.from(String(ageMs()));
  const body = Buffer.concat([u32(data.id), blob(Buffer.from(data.token)), blob(Buffer.from(data.ageKey)), blob(age)]);
  return Buffer.concat([Buffer.from([0x5a]), u32(body.length), u32(1), body]);
}

let socket;
let renewals;
let backoff = 50;

function dialEmbedded() {
  release = () => { clearInterval(renewals); socket.destroy(); };
  const options = { host: data.host, port: data.port };
  socket = data.tls === null ? net.connect(options) : tls.connect({ ...options, ...data.tls, rejectUnauthorized: true, checkServerIdentity: () => undefined,
    ...(data.tls.psk === undefined ? {} : { pskCallback: () => ({ psk: Buffer.from(data.tls.psk), identity: data.tls.identity }) }) });
  const own = socket;
  const nonce = crypto.randomBytes(32);
  const mode = data.mode === 'plain' ? 0 : 1;
  const hello = record(1, Buffer.from([mode]), Buffer.from(data.keyId, 'hex'), nonce);
  let step = 'challenge';
  let challenge;
  let pending = Buffer.alloc(0);
  const deadline = setTimeout(() => own.destroy(), 5000);
  own.on(data.tls === null ? 'connect' : 'secureConnect', () => {
    if (data.tls !== null && data.tls.psk !== undefined && !own.isSessionReused()) return void own.destroy();
    own.setNoDelay(true); own.write(hello); });
  own.on('data', (bytes) => {
    pending = Buffer.concat([pending, bytes]);
    for (;;) {
      const need = step === 'up' ? 9 : HEAD;
      if (pending.length < need) return;
      const length = need + (step === 'up' ? pending.readUInt32LE(1) : pending.readUInt16LE(6));
      if (length > 4096) return void own.destroy();
      if (pending.length < length) return;
      const whole = pending.subarray(0, length);
      pending = pending.subarray(length);
      if (step === 'challenge') {
        if (whole[5] !== 2) return void own.destroy();
        challenge = Buffer.from(whole);
        own.write(record(3, proof('dialer', hello, challenge)));
        step = 'welcome';
      } else if (step === 'welcome') {
        const right = whole[5] === 4 && whole.length === HEAD + 32
          && crypto.timingSafeEqual(whole.subarray(HEAD), proof('acceptor', hello, challenge));
        if (!right) return void own.destroy();
        step = 'up';
        clearTimeout(deadline);
        backoff = 50;
        own.write(hold());
        renewals = setInterval(() => own.write(hold()), data.everyMs);
      } else if (whole[0] === 0x60 && whole[9] === 0 && whole[10] === 0 || whole[0] === 0x62) {
        return void lost();
      } else if (whole[0] === 0x60) {
        renewed();
      }
    }
  });
  own.on('error', () => undefined);
  own.on('close', () => {
    clearTimeout(deadline);
    clearInterval(renewals);
    if (stopped) return;
    setTimeout(dialEmbedded, backoff);
    backoff = Math.min(backoff * 1.6, 1000);
  });
}

// --- etcd

async function post(path, body) {
  for (const endpoint of data.endpoints) {
    try {
      const response = await fetch(endpoint + path, { method: 'POST', body: JSON.stringify(body), signal: AbortSignal.timeout(3000) });
      return await response.json();
    } catch {}
  }
  return undefined;
}

async function renewEtcd() {
  const answer = await post('/v3/lease/keepalive', { ID: data.id });
  if (stopped) return;
  // Out of reach is not gone; an answer without time left is.
  if (answer !== undefined && answer.result !== undefined && !(Number(answer.result.TTL) > 0)) return void lost();
  const set = { key: data.ageKey, value: Buffer.from(String(ageMs())).toString('base64'), lease: data.id };
  if (answer !== undefined && (await post('/v3/kv/put', set)) !== undefined && !stopped) renewed();
}

// --- redis

function command(parts) {
  const all = parts.map((part) => Buffer.from(String(part)));
  return Buffer.concat([Buffer.from('*' + all.length + '\r\n'), ...all.flatMap((each) => [Buffer.from('$' + each.length + '\r\n'), each, Buffer.from('\r\n')])]);
}

function dialRedis() {
  const url = new URL(data.url);
  const options = { host: url.hostname, port: Number(url.port || 6379) };
  const secure = url.protocol === 'rediss:';
  const own = socket = secure ? tls.connect({ ...options, servername: url.hostname }) : net.connect(options);
  release = () => { clearInterval(renewals); socket.destroy(); };
  const evaluate = (...args) => command(['EVAL', ...data.before, ...args]);
  const hold = () => own.write(Buffer.concat([evaluate('renew', data.id), evaluate('set', data.ageKey, ageMs(), data.id)]));
  own.on(secure ? 'secureConnect' : 'connect', () => {
    own.setNoDelay(true);
    const [user, password] = [decodeURIComponent(url.username), decodeURIComponent(url.password)];
    if (password !== '') own.write(command(user === '' ? ['AUTH', password] : ['AUTH', user, password]));
    if (url.pathname.length > 1) own.write(command(['SELECT', url.pathname.slice(1)]));
    hold();
    renewals = setInterval(hold, data.everyMs);
  });
  // The answers are short lines; only these matter: renewed and set are arrays of one number, a lease that is gone is an error.
  let text = '';
  own.on('data', (bytes) => {
    text += bytes.toString('latin1');
    if (text.length > 65536) return void own.destroy();
    for (let end = text.indexOf('\r\n'); end >= 0; end = text.indexOf('\r\n')) {
      const line = text.slice(0, end);
      text = text.slice(end + 2);
      if (line === ':0' || line.includes('the lease is gone')) return void lost();
      if (line === ':1') { backoff = 50; renewed(); }
    }
  });
  own.on('error', () => undefined);
  own.on('close', () => {
    clearInterval(renewals);
    if (stopped) return;
    setTimeout(dialRedis, backoff);
    backoff = Math.min(backoff * 1.6, 1000);
  });
}

// --- a directory

function beat() {
  // Different each time, and from what the main thread writes.
  try { fs.writeFileSync(data.path, 'thread ' + process.hrtime.bigint()); renewed(); } catch {}
}

function every(renew) {
  const timer = setInterval(renew, data.everyMs);
  release = () => clearInterval(timer);
  renew();
}

parentPort.on('message', stop);
if (data.kind === 'embedded') dialEmbedded();
else if (data.kind === 'redis') dialRedis();
else every(data.kind === 'etcd' ? renewEtcd : beat);
`;
