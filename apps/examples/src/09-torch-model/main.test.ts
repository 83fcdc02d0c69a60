/** @file The example in Chromium, with a process of stock PyTorch. Skipped without the two. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { CHROMIUM, chromiumOptions } from '@backwire/testing';
import { chromium, type Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { torchVersion } from '../shared/python.ts';

const version = torchVersion();
const title = `stock torch ${version ?? '(skipped: no Python with torch; set BACKWIRE_TORCH_PYTHON)'}`;
/** Where the test leaves its pictures. */
const pictures = process.env['BACKWIRE_PICTURES'];

/** Draws a seven as a hand would: a bar, then a slant. */
async function drawSeven(page: Page): Promise<void> {
  const box = await page.locator('#paper').boundingBox();
  if (box === null) throw new Error('there is no paper');
  const points = [
    [0.28, 0.22],
    [0.72, 0.22],
    [0.58, 0.5],
    [0.45, 0.82],
  ] as const;
  const at = ([x, y]: readonly [number, number]): [number, number] => [box.x + x * box.width, box.y + y * box.height];
  await page.mouse.move(...at(points[0]));
  await page.mouse.down();
  for (const point of points.slice(1)) await page.mouse.move(...at(point), { steps: 12 });
  await page.mouse.up();
}

/** The number of different colours in a canvas. */
const colours = (page: Page, id: string): Promise<number> =>
  page.evaluate(`(() => {
    const canvas = document.getElementById('${id}');
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return new Set(new Uint32Array(data.buffer)).size;
  })()`);

const told = (page: Page, pattern: RegExp): Promise<unknown> =>
  page.waitForFunction(`${String(pattern)}.test(document.getElementById('says').textContent)`, undefined, {
    timeout: 60_000,
  });

const program = ['--import', 'tsx', '--conditions=@backwire/source', join(import.meta.dirname, 'main.ts')];
const example = (args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<unknown> =>
  promisify(execFile)(process.execPath, [...program, ...args], { env: { ...process.env, ...env } });

it('says in a line that its port is taken, before anything else runs', { timeout: 60_000 }, async () => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  try {
    const { port } = other.address() as AddressInfo;
    await expect(example(['--port', String(port)])).rejects.toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(
        new RegExp(`^torch-model: the page cannot be served on port ${port}: .*EADDRINUSE.*\\n$`),
      ) as string,
    });
  } finally {
    other.close();
    await once(other, 'close');
  }
});

it.skipIf(version === undefined)('ends when the training cannot begin', { timeout: 120_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'torch-model-'));
  try {
    // Python runs a file of this name before anything else.
    const fails = "def fails(*args, **kwargs):\n    raise ArithmeticError('no optimiser today')\n";
    writeFileSync(join(folder, 'sitecustomize.py'), `import torch\n${fails}torch.optim.SGD = fails\n`);
    await expect(example(['--port', '0', '--digits', '64'], { PYTHONPATH: folder })).rejects.toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('no optimiser today') as string,
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

describe.skipIf(version === undefined || CHROMIUM === undefined)(title, { timeout: 180_000 }, () => {
  it('a seven is seen as one, layers light up, and a second tab turns the learning rate of the training', async () => {
    const child = spawn(process.execPath, [...program, '--port', '0', '--digits', '4000'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const exit = once(child, 'exit');
    const browser = await chromium.launch(chromiumOptions);
    try {
      const [line] = (await Promise.race([
        once(createInterface(child.stdout), 'line'),
        exit.then(([code]) => Promise.reject(new Error(`it ended with ${code}`))),
      ])) as [string];
      const origin = /open (\S+),/.exec(line)?.[1] as string;
      const page = await browser.newPage({ viewport: { width: 800, height: 860 } });
      await page.goto(origin);
      // It has learnt something.
      await told(page, /^step (?:[5-9]\d\d|\d{4,}), loss \d/);
      await drawSeven(page);
      await page.waitForFunction(`document.getElementById('digit').textContent === '7'`, undefined, {
        timeout: 60_000,
      });
      expect(await colours(page, 'edges')).toBeGreaterThan(50);
      expect(await colours(page, 'parts')).toBeGreaterThan(30);
      const chance = await page.locator('#chances .best').getAttribute('style');
      expect(Number(/--chance: ([\d.]+)/.exec(chance ?? '')?.[1])).toBeGreaterThan(0.3);

      if (pictures !== undefined) {
        mkdirSync(pictures, { recursive: true });
        await page.screenshot({ path: join(pictures, 'torch-model.png') });
      }

      const turning = await browser.newPage({ viewport: { width: 800, height: 320 } });
      await turning.goto(`${origin}/#rate`);
      await told(turning, /learning rate 0\.020$/);
      await turning.locator('#slider').fill('0.003');
      // Both hear it from the training itself.
      await Promise.all([told(turning, /learning rate 0\.003$/), told(page, /learning rate 0\.003$/)]);
      if (pictures !== undefined) await turning.screenshot({ path: join(pictures, 'torch-model-rate.png') });
      await page.locator('#clear').click();
    } finally {
      await browser.close();
      child.kill('SIGINT');
    }
    expect(await exit).toEqual([0, null]);
  });
});
