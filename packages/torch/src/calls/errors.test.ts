/** @file What an error of a handler is called in Python, and at another worker of this kind. */
import { RemoteError, RpcError, WorkerInfo } from '@backwire/rpc';
import { expect, it } from 'vitest';
import { raised, raising } from './errors.ts';

class KeyError extends Error {}
class OutOfRange extends RangeError {}
class Own extends Error {
  override name = 'Overridden';
}
const self = new WorkerInfo('n0', 0);
const named = (name: string): Error => Object.assign(new Error('m'), { name });

it.each<[Error, string, string]>([
  [new Error('m'), 'RuntimeError', 'Error'],
  [new RangeError('m'), 'ValueError', 'RangeError'],
  [new OutOfRange('m'), 'ValueError', 'OutOfRange'],
  [new KeyError('m'), 'KeyError', 'KeyError'],
  [new Own('m'), 'RuntimeError', 'Own'],
  [named('ValueError'), 'ValueError', 'ValueError'],
  [named('NotThere'), 'RuntimeError', 'NotThere'],
  [named('not a name'), 'RuntimeError', 'Error'],
  [new DOMException('m', 'AbortError'), 'RuntimeError', 'AbortError'],
  [new DOMException('m', 'TimeoutError'), 'TimeoutError', 'TimeoutError'],
])('%s is a %s in Python, and a %s here', (error, type, name) => {
  const exception = raising(error, self);
  expect(exception.type.name).toBe(type);
  expect(exception.message).toContain(`On WorkerInfo(id=0, name=n0):\n${name}('m')\n`);
  const again = raised(exception, self);
  const remote = again instanceof RemoteError ? again : (again.cause as RemoteError);
  expect(remote).toBeInstanceOf(RemoteError);
  expect(remote.remoteName).toBe(name);
});

it('an RpcError keeps its code where a bundler has given its class another name', () => {
  const { name } = RpcError;
  try {
    Object.defineProperty(RpcError, 'name', { value: 'e', configurable: true });
    expect(raised(raising(new RpcError('not-found', 'm'), self), self)).toMatchObject({ code: 'not-found' });
  } finally {
    Object.defineProperty(RpcError, 'name', { value: name, configurable: true });
  }
});
