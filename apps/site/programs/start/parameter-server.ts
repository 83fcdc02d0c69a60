import { createRRef, crossEntropy, distAutograd, initRpc, nn, optim, randn } from 'backwire';
import { randint, remote, rpcClass, rpcName, shutdown, type Tensor } from 'backwire';

class ParameterServer {
  static readonly [rpcName] = 'ParameterServer';
  readonly model = new nn.Sequential(new nn.Linear(784, 128), new nn.ReLU(), new nn.Linear(128, 10));
  forward(x: Tensor) {
    return this.model.forward(x);
  }
  parameterRRefs() {
    return this.model.parameters().map((p) => createRRef(p));
  }
}
rpcClass(ParameterServer, { methods: ['forward', 'parameterRRefs'] }); // on both workers

await initRpc({ name: ['trainer', 'ps'][Number(process.env.RANK)]! });
if (process.env.RANK === '0') {
  const ps = remote('ps', ParameterServer); // an object on the worker `ps`; freed there when the last holder lets go
  const params = await ps.rpcSync().parameterRRefs(); // references to its parameters
  const optimizer = await distAutograd.DistributedOptimizer.create(optim.SGD, params, { lr: 0.1 });

  const x = randn([8, 784]); // eight images, and what they show
  const y = randint(0, 10, [8]);
  for (let step = 0; step <= 10; step++)
    await distAutograd.context(async (id) => {
      const loss = crossEntropy(await ps.rpcAsync().forward(x), y);
      if (step % 10 === 0) console.log(`step ${step}: loss ${loss.item().toFixed(3)}`);
      await distAutograd.backward(id, [loss]); // follows the graph back through the call
      await optimizer.step(id); // each owner updates its own parameters
    });
  ps.dispose();
}
await shutdown();
