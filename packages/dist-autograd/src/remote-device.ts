/** @file Where a remote module is put: 'worker/device', 'rank:N/device', a worker alone or a device alone. */
import { RpcError, type To } from '@backwire/rpc';
import { bare } from '@backwire/rpc/internal';

export interface RemoteDevice {
  /** Undefined: the worker that asks. */
  readonly worker: To | undefined;
  readonly device: string;
}

const DEVICE = /^(cpu|gpu:\d{1,4})$/;
const DEVICES = "a device is 'cpu' or 'gpu:N'";
const RANK = /^rank:(\d{1,5})$/;

/** @throws RpcError 'invalid-argument' "Could not parse remote_device: …" */
export function parseRemoteDevice(text: string): RemoteDevice {
  const fields = typeof text === 'string' ? text.split('/') : [];
  const [first, second] = fields;
  if (first !== undefined && first !== '' && fields.length === 1) {
    return DEVICE.test(first) ? { worker: undefined, device: first } : { worker: workerOf(first), device: 'cpu' };
  }
  if (first !== undefined && first !== '' && second !== undefined && fields.length === 2 && DEVICE.test(second)) {
    return { worker: workerOf(first), device: second };
  }
  const unknown = fields.length === 2 && second !== undefined && second !== '' ? `; ${DEVICES}, not '${second}'` : '';
  throw new RpcError(
    'invalid-argument',
    `Could not parse remote_device: ${bare(text)}. The valid format is '<workername>/<device>' or 'rank:<rank>/<device>' or '<device>'${unknown}`,
  );
}

function workerOf(field: string): To {
  const rank = RANK.exec(field)?.[1];
  return rank === undefined ? field : Number(rank);
}
