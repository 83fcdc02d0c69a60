/** @file A larger send buffer for Unix sockets that carry tensors: fewer turns of both processes for the same bytes. Needs `koffi`. */
import { attempt, once } from '../base/attempt.ts';
import { native } from './native.ts';

/**
 * What the kernel holds between the two processes; it doubles the number for its own books and cuts it at `net.core.wmem_max`. Its
 * usual 208 KiB make sender and receiver wake each other five times a megabyte: a megabyte echo gains a fifth, larger ones a tenth.
 */
export const SEND_BUFFER_BYTES = 1024 * 1024;
const SOL_SOCKET = 1;
const SO_SNDBUF = 7;

type SetOption = (fd: number, level: number, name: number, value: readonly number[], length: number) => number;

const DECLARATION = 'int setsockopt(int fd, int level, int name, const int *value, uint32_t length)';
const setOption = once(() => attempt(() => native()?.func(DECLARATION) as SetOption | undefined));

/** False where it cannot be done: the socket stays as it is. */
export function widenSendBuffer(fd: number): boolean {
  return setOption()?.(fd, SOL_SOCKET, SO_SNDBUF, [SEND_BUFFER_BYTES], 4) === 0;
}
