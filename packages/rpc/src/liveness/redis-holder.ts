/**
 * @file Holds a lease in Redis over a connection of its own. The package `redis`, which the store uses, would take a thread half a second and
 * 15 MB to load, and is not to be found from inside a bundle; the operation that is needed here is answered in a line or two.
 */
import { connect as connectNet, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { RpcError } from '../base/errors.ts';
import type { HolderEvents, LeaseHolder, RedisTicket } from '../stores/ticket.ts';

/** A command that takes longer has lost its server, and so has a connection that is not there after this. */
const COMMAND_MS = 5_000;
/** Or that takes so much of the lease's time: what is left has to do for another connection. */
const COMMANDS_PER_TTL = 5;
const FIRST_BACKOFF_MS = 50;
const MAX_BACKOFF_MS = 1_000;
/** All answers together are a few lines. */
const MAX_UNREAD_CHARS = 65_536;

/** A command without its answer. */
interface Owed {
  readonly since: number;
  readonly resolve: (answer: string) => void;
  readonly reject: (error: RpcError) => void;
}

/** States: *down* (dialling again) ⇄ *up* → *closed*, which is final. */
export class RedisHolder implements LeaseHolder {
  private readonly ticket: RedisTicket;
  private readonly events: HolderEvents;
  private readonly commandMs: number;
  private socket: Socket;
  private up = false;
  private closed = false;
  private backoff = FIRST_BACKOFF_MS;
  private redial: NodeJS.Timeout | undefined;
  private unread = '';
  private owed: Owed[] = [];

  constructor(ticket: RedisTicket, events: HolderEvents) {
    this.ticket = ticket;
    this.events = events;
    this.commandMs = Math.min(COMMAND_MS, ticket.ttlMs / COMMANDS_PER_TTL);
    this.socket = this.dial();
  }

  async hold(ageMs: number): Promise<boolean> {
    const { id, ageKey } = this.ticket;
    const [oldest] = this.owed;
    if (oldest !== undefined && performance.now() - oldest.since > this.commandMs) this.socket.destroy();
    if (!this.up) throw unavailable('there is no connection to Redis');
    if ((await this.evaluate('hold', id, ageKey, `${ageMs}`)) === ':0') return false;
    this.backoff = FIRST_BACKOFF_MS;
    return true;
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.redial);
    this.socket.destroy();
  }

  private dial(): Socket {
    const url = new URL(this.ticket.url);
    const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
    const to = { host, port: Number(url.port || 6379) };
    const secure = url.protocol === 'rediss:';
    // An address is no server name: TLS names hosts only.
    const named = isIP(host) === 0 ? { servername: host } : {};
    const socket = secure ? connectTls({ ...to, ...named }) : connectNet(to);
    socket.setNoDelay(true);
    socket.setTimeout(COMMAND_MS, () => socket.destroy());
    socket.on(secure ? 'secureConnect' : 'connect', () => {
      this.up = true;
      socket.setTimeout(0);
      for (const command of greeting(url)) this.send(command).catch(() => undefined);
      this.events.again();
    });
    socket.on('data', (bytes: Buffer) => this.onData(bytes.toString('latin1')));
    // 'close' follows.
    socket.on('error', () => undefined);
    socket.on('close', () => this.onClose());
    return socket;
  }

  /** By the script's name, which a server that started anew has to be told. */
  private async evaluate(...args: readonly string[]): Promise<string> {
    const { text, sha, parameters } = this.ticket.script;
    try {
      return await this.send(['EVALSHA', sha, ...parameters, ...args]);
    } catch (error) {
      if (!RpcError.from(error).message.includes('NOSCRIPT')) throw error;
      return this.send(['EVAL', text, ...parameters, ...args]);
    }
  }

  /** Resolves with the last line of the answer. */
  private send(command: readonly string[]): Promise<string> {
    return new Promise((resolve, reject) => {
      this.owed.push({ since: performance.now(), resolve, reject });
      this.socket.write(encode(command));
    });
  }

  /** Each answer is one line, or the head of a list of one and its line. */
  private onData(text: string): void {
    this.unread += text;
    if (this.unread.length > MAX_UNREAD_CHARS) return void this.socket.destroy();
    for (let end = this.unread.indexOf('\r\n'); end >= 0; end = this.unread.indexOf('\r\n')) {
      const line = this.unread.slice(0, end);
      this.unread = this.unread.slice(end + 2);
      if (line === '*1') continue;
      const command = this.owed.shift();
      if (line.startsWith('-')) command?.reject(unavailable(`Redis: ${line.slice(1)}`));
      else command?.resolve(line);
    }
  }

  private onClose(): void {
    this.up = false;
    this.unread = '';
    for (const { reject } of this.owed.splice(0)) reject(unavailable('the connection to Redis broke'));
    if (this.closed) return;
    this.redial = setTimeout(() => (this.socket = this.dial()), this.backoff);
    this.backoff = Math.min(this.backoff * 1.6, MAX_BACKOFF_MS);
  }
}

/** The commands that come first on a connection: who asks, and in which database. */
function greeting(url: URL): string[][] {
  const [user, password] = [decodeURIComponent(url.username), decodeURIComponent(url.password)];
  const authenticate = password === '' ? [] : [['AUTH', ...(user === '' ? [] : [user]), password]];
  return url.pathname.length > 1 ? [...authenticate, ['SELECT', url.pathname.slice(1)]] : authenticate;
}

/** A command in Redis's protocol: a list of texts, each after its length in bytes. */
function encode(command: readonly string[]): string {
  const parts = command.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`);
  return `*${command.length}\r\n${parts.join('')}`;
}

function unavailable(why: string): RpcError {
  return new RpcError('unavailable', why);
}
