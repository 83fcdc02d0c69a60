/** @file A store on its own, for tests that need it on a host where no worker is: the address and the port are its arguments. */
import { serveStore } from '../src/stores/embedded-server.ts';

const [host = '127.0.0.1', port = '0'] = process.argv.slice(2);
await serveStore({ host, port: Number(port) });
console.log('serves');
