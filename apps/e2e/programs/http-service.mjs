// A tensor service behind an HTTP server: the server takes requests of anybody, and another worker computes.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { initRpc, rpcAsync, rpcFunction, rpcInfo, shutdown, tensor } from 'backwire';

const scores = rpcFunction('scores', (x) => x.softmax(-1));
const STATUS = { 'invalid-argument': 400, 'deadline-exceeded': 504 };

const rank = Number(process.env.RANK);
await initRpc({ name: ['web', 'model'][rank], rank, worldSize: 2 });
if (rank === 0) {
  const server = createServer(async (request, response) => {
    try {
      const chunks = [];
      for await (const chunk of request) chunks.push(chunk);
      const rows = JSON.parse(Buffer.concat(chunks).toString());
      const y = await rpcAsync('model', scores, [tensor(rows)], { timeoutMs: 10_000 });
      response.end(JSON.stringify(y.toArray()));
    } catch (error) {
      response.writeHead(STATUS[rpcInfo(error)?.code] ?? 422).end(JSON.stringify({ error: error.message }));
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const ask = (body) => fetch(`http://127.0.0.1:${server.address().port}`, { method: 'POST', body });
  // Many at once, and one that is no tensor between them, which harms none of the others.
  const bodies = Array.from({ length: 20 }, (_, i) =>
    i === 7
      ? '[[1, 2], [3]]'
      : JSON.stringify([
          [i, i],
          [0, 0],
        ]),
  );
  const answers = await Promise.all(bodies.map(ask));
  const sums = await Promise.all(answers.map(async (one) => (one.ok ? (await one.json()).flat().length : one.status)));
  const halves = await (await ask('[[3, 3]]')).json();
  console.log(`answer ${JSON.stringify([sums.filter((n) => n === 4).length, sums[7], halves])}`);
  server.close();
}
await shutdown();
