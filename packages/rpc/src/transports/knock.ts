/** @file Whether anybody is behind an address, found out without saying a word: the kernel answers for a process that stands still. */
import { connect, type NetConnectOpts } from 'node:net';

/** `there`: the connection was accepted; `refused`: the host says that nobody listens; `silent`: nothing came back. */
export type Knock = 'there' | 'refused' | 'silent';

/** Knocks at all endpoints at once, for `timeoutMs` at most. */
export async function knock(endpoints: readonly string[], timeoutMs: number): Promise<Knock> {
  const targets = endpoints.map(targetOf).filter((options) => options !== undefined);
  const answers = await Promise.all(targets.map((options) => once(options, timeoutMs)));
  if (answers.includes('there')) return 'there';
  return answers.includes('refused') ? 'refused' : 'silent';
}

function once(options: NetConnectOpts, timeoutMs: number): Promise<Knock> {
  return new Promise((resolve) => {
    const socket = connect(options);
    const end = (answer: Knock): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(answer);
    };
    const timer = setTimeout(() => end('silent'), timeoutMs).unref();
    socket.unref();
    socket.once('connect', () => end('there'));
    // A queue of connections that is full is a process that has not taken any for a while.
    socket.once('error', ({ code }: NodeJS.ErrnoException) =>
      end(code === 'ECONNREFUSED' || code === 'ENOENT' ? 'refused' : code === 'EAGAIN' ? 'there' : 'silent'),
    );
  });
}

/** Where a transport's endpoint leads; undefined for those inside a process. */
function targetOf(endpoint: string): NetConnectOpts | undefined {
  const file = /^(?:unix|cma):\/\/(\/.+)$/.exec(endpoint);
  if (file?.[1] !== undefined) return { path: file[1] };
  const match = /^(?:tcp|tls|ws|wss):\/\/(?:\[([^\]]+)\]|([^:/[\]]+)):(\d{1,5})/.exec(endpoint);
  return match === null ? undefined : { host: match[1] ?? match[2] ?? '', port: Number(match[3]) };
}
