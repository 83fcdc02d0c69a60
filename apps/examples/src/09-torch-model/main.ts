/**
 * @file A model that lives in PyTorch, looked at from a web page: page → worker in Node → PyTorch process.
 *
 *     node --import tsx --conditions=@backwire/source apps/examples/src/09-torch-model/main.ts
 */
import { initRpc, rpcSync, tensor, type Tensor } from 'backwire';
import { createTorchAgent, py, serveGateway, type PyFloat } from '@backwire/torch';
import { reportMistake } from '../shared/example.ts';
import { count, flagsHelp, parseFlags } from '../shared/flags.ts';
import { PIXELS, readDigits } from '../shared/mnist.ts';
import { freePort, startPython } from '../shared/python.ts';
import { serveSite } from './site.ts';
import { methods, running } from './training.ts';

const flags = {
  port: count('of the page', 8009, { least: 0, most: 65_535 }),
  digits: count('digits to learn from', 10_000, { least: 64, most: 60_000 }),
} as const;

// Called from here alone: no page is served these.
const begin = py<(images: Tensor, labels: Tensor, rate: PyFloat) => void>('digits.begin');
const end = py<() => void>('digits.end');

async function main(): Promise<void> {
  const options = parseFlags(process.argv.slice(2), flags);
  if (options === undefined) return void process.stdout.write(flagsHelp(flags));
  // First what may be in the way: a port that is taken is said before anything else runs.
  await using site = await serveSite(options.port);
  const port = await freePort();
  await using python = startPython(import.meta.dirname, 'digits', {
    MASTER_ADDR: '127.0.0.1',
    MASTER_PORT: String(port),
  });
  await using torch = await createTorchAgent({
    name: 'web',
    rank: 1,
    worldSize: 2,
    initMethod: `tcp://127.0.0.1:${port}`,
    trustNetwork: true,
  });
  const { images, labels } = readDigits('train');
  // A training that cannot begin ends the program, not the first page.
  await torch.run(() =>
    rpcSync('python', begin, [
      tensor(Float32Array.from(images.subarray(0, options.digits * PIXELS), (grey) => grey / 255)).reshape([
        -1, 1, 28, 28,
      ]),
      tensor(BigInt64Array.from(labels.subarray(0, options.digits), BigInt)),
      py.float(0.02),
    ]),
  );
  Object.assign(process.env, site.env);
  await using agent = await initRpc({
    name: 'web',
    group: 'digits',
    membership: 'dynamic',
    transports: ['unix', 'ws'],
    serve: [],
  });
  // What pages may call in PyTorch, and nothing else.
  serveGateway(torch, { serve: [{ make: running, methods }] });
  console.log(`open ${site.origin}, and ${site.origin}/#rate in a second tab; Ctrl-C ends it`);
  await new Promise((resolve) => process.on('SIGINT', resolve));
  await agent.shutdown({ graceful: false });
  await torch.run(() => rpcSync('python', end));
  await torch.shutdown();
  await python.ended;
}

await main().catch((error: unknown) => reportMistake('torch-model', error));
