/** @file The process that answers each bare frame with another. */
import { FrameKind } from '@backwire/wire/internal';
import { serveAsks } from '../processes.ts';
import { FrameEnd } from './frames-wire.ts';
import { listenRaw } from './raw-wire.ts';

serveAsks({
  listen: async (directory: string, how: 'bare' | 'session') => {
    const { place } = await listenRaw(directory, 'frames', (socket) => {
      const end: FrameEnd = new FrameEnd(socket, (id) => end.send(FrameKind.RESULT, id), how);
    });
    return place;
  },
});
