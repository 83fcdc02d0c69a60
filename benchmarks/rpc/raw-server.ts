/** @file The raw process that serves: sends frames back at once, and bodies when they are complete. */
import { connect, type Socket } from 'node:net';
import { serveAsks } from '../processes.ts';
import { FRAME_BYTES, listenRaw, MAX_BODY_BYTES, READ_BYTES, reading, SIZE_BYTES, type Place } from './raw-wire.ts';

const body = Buffer.alloc(MAX_BODY_BYTES, 1);
const sizes: number[] = [];
let landed = 0;
let down: Socket | undefined;

serveAsks({
  listen: async (directory: string) => [
    (await listenRaw(directory, 'pings', answerPings)).place,
    (await listenRaw(directory, 'down', (socket) => (down = socket))).place,
  ],
  dial: (up: Place) => {
    const options = reading(
      up,
      () => body.subarray(landed, Math.min(body.length, landed + READ_BYTES)),
      (bytes) => {
        landed += bytes;
        answerBody();
      },
    );
    connect(options).on('error', () => undefined);
  },
});

function answerPings(socket: Socket): void {
  let rest: Buffer = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => {
    if (rest.length === 0 && chunk.length % FRAME_BYTES === 0) {
      socket.write(chunk);
      return;
    }
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    if (bytes.length === SIZE_BYTES) {
      rest = Buffer.alloc(0);
      sizes.push(bytes.readDoubleLE());
      answerBody();
      return;
    }
    const whole = bytes.length - (bytes.length % FRAME_BYTES);
    if (whole > 0) socket.write(bytes.subarray(0, whole));
    rest = bytes.subarray(whole);
  });
}

/** Bodies may arrive before their size does: both travel on connections of their own. */
function answerBody(): void {
  const wanted = sizes[0];
  if (wanted === undefined || landed < wanted) return;
  sizes.shift();
  landed = 0;
  down?.write(body.subarray(0, wanted));
}
