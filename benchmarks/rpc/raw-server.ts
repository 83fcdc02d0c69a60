/** @file The second raw process: sends frames back at once, and bodies when they are complete. */
import { connect, createServer, type Socket } from 'node:net';
import { FRAME_BYTES, MAX_BODY_BYTES, READ_BYTES } from './raw-wire.ts';

const [pingPath, upPath, downPath] = process.argv.slice(2) as [string, string, string];
const body = Buffer.alloc(MAX_BODY_BYTES);
const sizes: number[] = [];
let landed = 0;
let down: Socket | undefined;

/** Bodies may arrive before their size does: both travel on connections of their own. */
function answer(): void {
  const wanted = sizes[0];
  if (wanted === undefined || landed < wanted) return;
  sizes.shift();
  landed = 0;
  down?.write(body.subarray(0, wanted));
}

createServer((socket) => {
  let rest: Buffer = Buffer.alloc(0);
  socket.on('error', () => undefined);
  socket.on('data', (chunk: Buffer) => {
    if (rest.length === 0 && chunk.length % FRAME_BYTES === 0) {
      socket.write(chunk);
      return;
    }
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    if (bytes.length === 8) {
      rest = Buffer.alloc(0);
      sizes.push(bytes.readDoubleLE());
      answer();
      return;
    }
    const whole = bytes.length - (bytes.length % FRAME_BYTES);
    if (whole > 0) socket.write(bytes.subarray(0, whole));
    rest = bytes.subarray(whole);
  });
}).listen(pingPath);

createServer((socket) => {
  down = socket;
  socket.on('error', () => undefined);
}).listen(downPath);

connect({
  path: upPath,
  onread: {
    buffer: () => body.subarray(landed, landed + READ_BYTES),
    callback: (bytes) => {
      landed += bytes;
      answer();
      return true;
    },
  },
}).on('error', () => undefined);

// The input ends when the other process closes it, or dies.
process.stdin.resume().on('end', () => process.exit(0));
process.send?.('ready');
