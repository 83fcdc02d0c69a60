/** @file A worker that stood still while its group went on without it. */
import { describe, expect, it } from 'vitest';
import { Crew, TENTH } from './crew.ts';

describe('a worker that is stopped until it has been put out', { timeout: 60_000 }, () => {
  it.each([1, 2])('runs not one of the calls that wait for it when it wakes: w%i of three', async (frozen) => {
    await using crew = await Crew.start({ size: 3, options: { liveness: TENTH } });
    const to = `w${frozen}`;
    await crew.mesh();
    expect((await crew.tell(0, { do: 'flood', to, ms: 100 })).value).toBeGreaterThan(0);
    await expect.poll(async () => (await crew.tell(0, { do: 'call', to })).value).toBe(7);
    // Before the calls that are to wait: one that is running when it is stopped goes on when it wakes.
    crew.kill(frozen, 'SIGSTOP');
    const sent = crew.tell(0, { do: 'flood', to, ms: 1_500 });
    await crew.event(0, `peer-down ${to}`);
    expect((await sent).value).toBeGreaterThan(10);
    const woken = Date.now();
    crew.kill(frozen, 'SIGCONT');
    await crew.event(frozen, 'fenced');
    expect((await crew.tell(frozen, { do: 'count', since: 0 })).value).toBeGreaterThan(0);
    expect((await crew.tell(frozen, { do: 'count', since: woken })).value).toBe(0);
    // What it asks of others fails, and says why it was put out.
    const { code, text } = await crew.tell(frozen, { do: 'call', to: 'w0' });
    expect({ code, text }).toMatchObject({
      code: 'fenced',
      text: expect.stringMatching(/the group has removed this worker: this worker stood still for \d+\.\d s/) as string,
    });
  });

  it('serves at once what waits when it was not put out', async () => {
    await using crew = await Crew.start({ size: 3 });
    await crew.mesh();
    crew.kill(1, 'SIGSTOP');
    const sent = crew.tell(0, { do: 'flood', to: 'w1', ms: 3_000 });
    await new Promise((resolve) => setTimeout(resolve, 5_500));
    crew.kill(1, 'SIGCONT');
    const { value } = await sent;
    expect((await crew.tell(0, { do: 'call', to: 'w1' })).value).toBe(7);
    expect((await crew.tell(1, { do: 'count', since: 0 })).value).toBe(value);
    expect(crew.all.flatMap((rank) => crew.events(rank))).toEqual([]);
  });
});
