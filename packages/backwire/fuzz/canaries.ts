/** @file Code that a member must not be able to run: each piece says so when it runs. For the tests and the fuzzer of hostile members. */
import { rpcName } from '@backwire/tensor';
import * as backwire from '../src/index.ts';

const { createRRef, nn, optim, rpcClass, rpcFunction } = backwire;

/** What ran, in order. */
export const ran: string[] = [];

/** Whether what runs was asked for by nobody else: the making of the canaries. */
let making = false;

function run(what: string): void {
  if (!making) ran.push(what);
}

/** Published, and a constructor with effects; neither a module nor an optimiser. */
export class Danger {
  static readonly [rpcName] = 'canary/Danger';
  constructor() {
    run('new Danger');
  }
  /** As an optimiser has it, so that it may be taken for one. */
  readonly params: readonly never[] = [];
  step(): void {
    run('Danger.step');
  }
  forward(): void {
    run('Danger.forward');
  }
  static open(): void {
    run('Danger.open');
  }
}
rpcClass(Danger, { methods: ['step', 'forward'], statics: ['open'] });

export class SecretNet extends nn.Module {
  static readonly [rpcName] = 'canary/SecretNet';
  constructor() {
    super();
    run('new SecretNet');
  }
  forward(): void {
    run('SecretNet.forward');
  }
  secret(): void {
    run('SecretNet.secret');
  }
  override parameters(): backwire.Parameter[] {
    run('SecretNet.parameters');
    return [];
  }
  override train(): this {
    run('SecretNet.train');
    return this;
  }
}
rpcClass(SecretNet, { methods: ['forward'] });

export class SecretOptimizer extends optim.SGD {
  static override readonly [rpcName] = 'canary/SecretOptimizer' as never;
  constructor(params: Iterable<backwire.Tensor>) {
    super(params, { lr: 0 });
    run('new SecretOptimizer');
  }
  override step(): void {
    run('SecretOptimizer.step');
  }
}
rpcClass(SecretOptimizer, { methods: ['step'] });

export const secretFunction = rpcFunction('canary/secret-function', () => run('secretFunction'));
export const secretStream = rpcFunction('canary/secret-stream', async function* () {
  run('secretStream');
  yield 1;
});

/** Nothing of these is published. */
export class HiddenThing {
  readonly params: readonly never[] = [];
  step(): void {
    run('HiddenThing.step');
  }
  forward(): void {
    run('HiddenThing.forward');
  }
}

export class HiddenNet extends nn.Module {
  forward(): void {
    run('HiddenNet.forward');
  }
  override parameters(): backwire.Parameter[] {
    run('HiddenNet.parameters');
    return [];
  }
  override train(): this {
    run('HiddenNet.train');
    return this;
  }
}

/** Extends what is lent to everybody. */
export class HiddenLayer extends nn.Linear {
  constructor() {
    super(1, 1);
  }
  override forward(x: backwire.Tensor): backwire.Tensor {
    run('HiddenLayer.forward');
    return x;
  }
  override parameters(): backwire.Parameter[] {
    run('HiddenLayer.parameters');
    return [];
  }
}

export class HiddenOptimizer extends optim.SGD {
  constructor() {
    super([new nn.Linear(1, 1).weight], { lr: 0 });
  }
  override step(): void {
    run('HiddenOptimizer.step');
  }
}

/** References to one of each, for whoever asks. */
export const giveCanaries = rpcFunction('canary/give', (): backwire.RRef<object>[] => {
  making = true;
  const made = [
    new Danger(),
    new SecretNet(),
    new SecretOptimizer([new nn.Linear(1, 1).weight]),
    new HiddenThing(),
    new HiddenNet(),
    new HiddenLayer(),
    new HiddenOptimizer(),
    backwire.tensor([1, 2, 3]),
  ];
  making = false;
  return made.map((value) => createRRef<object>(value));
});
