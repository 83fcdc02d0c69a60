/**
 * @file A model that lives in PyTorch, looked at from a web page: page → worker in Node → PyTorch process.
 *
 *     node --import tsx --conditions=@backwire/source apps/examples/src/09-torch-model/main.ts
 */
import { createRRef, initRpc, rpcClass, rpcFunction, rpcName, tensor, type RRef, type Tensor } from 'backwire';
import { remote } from '@backwire/rref';
import { createTorchAgent, py, type TorchAgent } from '@backwire/torch';
import { reportMistake } from '../shared/example.ts';
import { count, flagsHelp, parseFlags } from '../shared/flags.ts';
import { PIXELS, readDigits } from '../shared/mnist.ts';
import { freePort, startPython } from '../shared/python.ts';
import { serveSite } from './site.ts';
import type { Progress, Seen, Training } from './training.ts';

const flags = {
  port: count('of the page', 8009, { least: 0, most: 65_535 }),
  digits: count('digits to learn from', 10_000, { least: 64, most: 60_000 }),
} as const;

/** The class of Python as it is seen from here: a dict comes as a Map. */
interface PythonTraining {
  progress(): Map<keyof Progress, number>;
  set_rate(rate: number): void;
  look(image: Tensor): Map<keyof Seen, Tensor>;
  stop(): void;
}

/** Stands for the training in the Backwire group: what the pages call, it calls in the torch group. */
class Bridge implements Training {
  static readonly [rpcName] = 'digits/Training';

  private readonly training: RRef<PythonTraining>;
  private readonly torch: TorchAgent;

  constructor(training: RRef<PythonTraining>, torch: TorchAgent) {
    this.training = training;
    this.torch = torch;
  }

  async progress(): Promise<Progress> {
    return fields(await this.torch.run(() => this.training.rpcSync().progress()));
  }

  setRate(rate: number): Promise<void> {
    return this.torch.run(() => this.training.rpcSync().set_rate(py.float(rate) as never));
  }

  async look(image: Tensor): Promise<Seen> {
    return fields(await this.torch.run(() => this.training.rpcSync().look(image)));
  }
}
rpcClass(Bridge, { methods: ['progress', 'setRate', 'look'] });

const fields = <K extends string, V>(dict: ReadonlyMap<K, V>): Record<K, V> => Object.fromEntries(dict) as Record<K, V>;

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
  const training = torch.run(() =>
    remote('python', py<PythonTraining>('digits.Training'), [
      tensor(Float32Array.from(images.subarray(0, options.digits * PIXELS), (grey) => grey / 255)).reshape([
        -1, 1, 28, 28,
      ]),
      tensor(BigInt64Array.from(labels.subarray(0, options.digits), BigInt)),
      py.float(0.02),
    ]),
  );
  // A training that cannot begin ends the program, not the first page.
  const bridge = new Bridge(training, torch);
  await bridge.progress();
  const running = rpcFunction('digits/running', () => createRRef<Training>(bridge));
  Object.assign(process.env, site.env);
  await using agent = await initRpc({
    name: 'web',
    group: 'digits',
    membership: 'dynamic',
    transports: ['unix', 'ws'],
    serve: [running, Bridge],
  });
  console.log(`open ${site.origin}, and ${site.origin}/#rate in a second tab; Ctrl-C ends it`);
  await new Promise((resolve) => process.once('SIGINT', resolve));
  await agent.shutdown({ graceful: false });
  await torch.run(() => training.rpcSync().stop());
  training.dispose();
  await torch.shutdown();
  await python.ended;
}

await main().catch((error: unknown) => reportMistake('torch-model', error));
