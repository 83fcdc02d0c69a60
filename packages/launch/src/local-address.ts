/** @file Which address of this host others can reach. */
import { createSocket } from 'node:dgram';
import { lookup } from 'node:dns/promises';

/**
 * The address from which this host sends to `host`; undefined when that is this host's loopback. Nothing is sent: the system is only
 * asked for its route.
 * @throws the system's error when there is no such host or no way to it.
 */
export async function localAddressTo(host: string): Promise<string | undefined> {
  const { address, family } = await lookup(host);
  const socket = createSocket(family === 6 ? 'udp6' : 'udp4');
  try {
    await new Promise<void>((resolve, reject) => {
      socket.once('error', reject);
      socket.connect(9, address, () => resolve());
    });
    const local = socket.address().address;
    return /^(127\.|::1$)/.test(local) ? undefined : local;
  } finally {
    socket.close();
  }
}
