/** @file An npm registry on loopback: our packages are only its own, all others come from the registry that npm is configured with. */
import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '@backwire/testing';
import { run } from '../workspace.ts';

export interface Registry {
  readonly url: string;
  /** Makes npm use it, as somebody who may publish. */
  readonly env: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

const START_MS = 60_000;

/** Starts a registry that keeps what is published in `folder`. */
export async function openRegistry(folder: string): Promise<Registry> {
  mkdirSync(folder, { recursive: true });
  const configured = await run('npm', ['config', 'get', 'registry']);
  const port = await freePort();
  const url = `http://127.0.0.1:${port}/`;
  const config = join(folder, 'config.yaml');
  writeFileSync(config, configText(folder, configured.stdout.trim()));
  const userconfig = join(folder, 'npmrc');
  writeFileSync(userconfig, `registry=${url}\n//127.0.0.1:${port}/:_authToken=rehearsal\n`);
  const manifest = createRequire(import.meta.url).resolve('verdaccio/package.json');
  const child = spawn(
    process.execPath,
    [join(dirname(manifest), 'bin/verdaccio'), '--config', config, '--listen', `127.0.0.1:${port}`],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const close = async (): Promise<void> => {
    child.kill('SIGTERM');
    await ended;
  };
  for (const deadline = Date.now() + START_MS; !(await answers(url)); await sleep(100)) {
    if (child.exitCode !== null || Date.now() > deadline) {
      await close();
      throw new Error(`verdaccio did not start:\n${said}`);
    }
  }
  const env = { npm_config_registry: url, npm_config_userconfig: userconfig, npm_config_noproxy: '127.0.0.1' };
  return { url, env, close };
}

async function answers(url: string): Promise<boolean> {
  return fetch(`${url}-/ping`).then(
    (response) => response.ok,
    () => false,
  );
}

function configText(folder: string, uplink: string): string {
  const proxy = (name: string): string => {
    const value = process.env[name] ?? process.env[name.toUpperCase()];
    return value === undefined || value === '' ? '' : `${name}: ${value}\n`;
  };
  return `storage: ${join(folder, 'storage')}
auth:
  htpasswd:
    file: ${join(folder, 'htpasswd')}
uplinks:
  npm:
    url: ${uplink}
    timeout: 60s
packages:
  backwire:
    access: $all
    publish: $all
  '@backwire/*':
    access: $all
    publish: $all
  '**':
    access: $all
    proxy: npm
web:
  enable: false
log: { type: stdout, format: pretty, level: warn }
${proxy('http_proxy')}${proxy('https_proxy')}${proxy('no_proxy')}`;
}
