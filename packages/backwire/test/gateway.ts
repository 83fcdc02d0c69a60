/** @file A program that nobody launched, which joins a group by the address it is given and says whom it found. */
import { getWorkerInfos, initRpc } from '../src/index.ts';

const agent = await initRpc({ name: 'gateway', store: process.argv[2] ?? '', membership: 'dynamic' });
const names = getWorkerInfos().map(({ name }) => name);
console.log(`joined ${names.join(' ')} as ${agent.id}`);
await agent.shutdown({ graceful: false });
