/** Started by `backwire run`: an enum, `using`, and a TypeScript module by the name it will have when it is built. */
import { initRpc, remote, rpcClass, rpcName, shutdown } from 'backwire';
import { Role } from './model.js';

class Counter {
  static readonly [rpcName] = 'Counter';
  private n = 0;
  add(by: number): number {
    return (this.n += by);
  }
}
rpcClass(Counter, { methods: ['add'] });

const role: Role = process.env['RANK'] === '0' ? Role.Caller : Role.Server;
await initRpc({ name: role });
if (role === Role.Caller) {
  using counter = remote(Role.Server, Counter);
  await counter.rpcSync().add(2);
  console.log(`answer ${JSON.stringify([await counter.rpcSync().add(3)])}`);
}
await shutdown();
