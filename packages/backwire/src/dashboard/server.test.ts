/** @file What the server of the live page answers, over real sockets; the looks are the test's. */
import { connect } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import type { GroupLook } from '@backwire/rpc/internal';
import { serveDashboard, type Dashboard } from './server.ts';

let dashboard: Dashboard | undefined;
afterEach(async () => {
  await dashboard?.close();
  dashboard = undefined;
});

/** Serves what `look` gives, and says where. */
async function serve(look: () => Promise<GroupLook>): Promise<string> {
  dashboard = await serveDashboard({ inspector: { look } as never, port: 0, intervalMs: 50 });
  return dashboard.url;
}

/** The stream of events from its beginning to the first that is called `event`. */
async function eventsUntil(url: string, event: string): Promise<string> {
  const response = await fetch(`${url}events`);
  let text = '';
  const decoder = new TextDecoder();
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    text += decoder.decode(chunk, { stream: true });
    if (text.includes(`event: ${event}\n`) && text.endsWith('\n\n')) break;
  }
  return text;
}

const TURNING = /[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\\u00[01]|\\u20[23]/;

describe('the page', () => {
  it('is told no name that turns its line around or moves a cursor', async () => {
    const url = await serve(() =>
      Promise.resolve({
        group: 'g\u202e',
        at: 0,
        epoch: 1,
        workers: [{ name: 'w\u2066x', id: 0, incarnation: 1, state: 'silent', error: 'no\u200f\u001banswer' }],
      }),
    );
    const text = await eventsUntil(url, 'look');
    expect(text).toContain('"name":"w x"');
    expect(text).toContain('"error":"no  answer"');
    expect(text).not.toMatch(TURNING);
  });

  it('is told so of errors as well', async () => {
    const url = await serve(() => Promise.reject(new Error('of \u202eevil')));
    const text = await eventsUntil(url, 'lost');
    expect(text).toContain('"text":"of  evil"');
    expect(text).not.toMatch(TURNING);
  });
});

describe('a request', () => {
  it.each(['events', '', 'page.js'])("for '%s' that does not read is told what it may", async (file) => {
    const url = await serve(() => Promise.reject(new Error('nobody looks')));
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
      const response = await fetch(`${url}${file}`, { method });
      expect(response.status, method).toBe(405);
      expect(response.headers.get('allow')).toBe('GET, HEAD');
      expect(response.headers.get('x-content-type-options')).toBe('nosniff');
    }
  });

  it('for the head of the events gets it, and opens no page', async () => {
    let looks = 0;
    const url = await serve(() => Promise.reject(new Error(`look ${++looks}`)));
    const response = await fetch(`${url}events`, { method: 'HEAD' });
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
    expect(await response.text()).toBe('');
    expect(looks).toBe(0);
  });

  it('that never comes is not waited for, and others are answered', async () => {
    const url = await serve(() => Promise.reject(new Error('nobody looks')));
    const port = Number(new URL(url).port);
    let closed = 0;
    const silent = Array.from({ length: 200 }, (_, i) => {
      const socket = connect(port, '127.0.0.1', () => {
        if (i % 2 === 0) socket.write('GET / HTTP/1.1\r\n');
      });
      return socket
        .resume()
        .on('error', () => undefined)
        .on('close', () => closed++);
    });
    try {
      // More than it takes, and those that it took when their time is over.
      await expect.poll(() => closed, { timeout: 15_000 }).toBe(200);
      expect((await fetch(url)).status).toBe(200);
    } finally {
      for (const socket of silent) socket.destroy();
    }
  }, 20_000);

  it('without the token is told nothing, whatever it wants', async () => {
    const url = await serve(() => Promise.reject(new Error('nobody looks')));
    const { origin } = new URL(url);
    for (const path of ['/', '/events', `/${'0'.repeat(32)}/events`, `${new URL(url).pathname}events/x`])
      for (const method of ['GET', 'POST']) expect((await fetch(`${origin}${path}`, { method })).status).toBe(404);
    expect((await fetch(`${url}event`, { method: 'POST' })).status).toBe(404);
  });
});
