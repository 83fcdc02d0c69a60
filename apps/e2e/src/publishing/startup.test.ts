/** @file What the commands pay at start, in processor time: waiting for others that run beside the test does not count. */
import { join } from 'node:path';
import { expect, inject, test } from 'vitest';
import { here, start } from './programs.ts';

const { projects } = inject('rehearsal');
const ROUNDS = 5;
/** Says at the end what the process has used, in microseconds. */
const METER =
  'data:text/javascript,process.on("exit",()=>{const{user,system}=process.cpuUsage();console.log("used",user+system)})';

/** Milliseconds of processor time. */
async function cost(args: readonly string[]): Promise<number> {
  const child = start(here(projects.first), ['--import', METER, ...args]);
  let said = '';
  child.stdout?.on('data', (chunk: Buffer) => (said += chunk.toString()));
  await new Promise((resolve) => child.once('close', resolve));
  return Number(/used (\d+)/.exec(said)?.[1]) / 1000;
}

/**
 * 150 ms of a machine on which an empty program takes 50. Of several rounds the least counts, in which least was in the way.
 */
const MOST = 3;

test.each([
  ['--version', ['--version'], 0.5],
  ['inspect', ['inspect', '127.0.0.1:9', '--timeout', '0.05'], MOST],
])('backwire %s takes little more than an empty program', async (_, args, most) => {
  const cli = join(projects.first, 'node_modules/backwire/dist/cli.js');
  const [empty, ours]: [number[], number[]] = [[], []];
  for (let round = 0; round < ROUNDS; round++) {
    empty.push(await cost(['--eval', '0']));
    ours.push(await cost([cli, ...args]));
  }
  const least = Math.min(...empty);
  console.log(`backwire ${args[0]}: ${Math.min(...ours).toFixed(0)} ms, an empty program ${least.toFixed(0)} ms`);
  expect((Math.min(...ours) - least) / least).toBeLessThan(most);
});
