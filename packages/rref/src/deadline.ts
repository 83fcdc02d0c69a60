/** @file Waiting for something local under the same bounds as a call: a time limit and a signal. */
import { RpcError } from '@backwire/rpc';
import { cancelled, checkSignal, MAX_TIMER_MS, unwatchAbort, watchAbort } from '@backwire/rpc/internal';

/** `promise`, or a rejection once `timeoutMs` (0 = no limit) have passed or `signal` aborts. Leaves no timer and no listener behind. */
export function waitFor<T>(promise: Promise<T>, timeoutMs: number, signal?: AbortSignal): Promise<T> {
  if (timeoutMs === 0 && signal === undefined) return promise;
  return new Promise<T>((resolve, reject) => {
    // Where the wait ends first, what becomes of the promise is nobody's any more.
    promise.catch(() => undefined);
    checkSignal(signal);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const abort = (): void => {
      end();
      reject(aborted(signal));
    };
    const end = (): void => {
      clearTimeout(timer);
      if (signal !== undefined) unwatchAbort(signal, abort);
    };
    if (signal?.aborted === true) {
      reject(aborted(signal));
      return;
    }
    if (signal !== undefined) watchAbort(signal, abort);
    if (timeoutMs > 0) {
      timer = setTimeout(
        () => {
          end();
          const text = `RPC ran for more than set timeout (${timeoutMs} ms) and will now be marked with an error`;
          reject(new RpcError('deadline-exceeded', text, { executed: 'maybe' }));
        },
        Math.min(timeoutMs, MAX_TIMER_MS),
      );
    }
    promise.then(
      (value) => {
        end();
        resolve(value);
      },
      (error: unknown) => {
        end();
        reject(error);
      },
    );
  });
}

function aborted(signal: AbortSignal | undefined): RpcError {
  const reason: unknown = signal?.reason;
  if (reason instanceof RpcError) return reason;
  return cancelled('the call', reason, { executed: 'maybe' });
}
