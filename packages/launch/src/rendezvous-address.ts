/** @file The address of an etcd or a Redis in which launchers meet, where host and port do not say it all. */
import { withoutPassword } from '@backwire/rpc/internal';
import { UsageError } from './errors.ts';

/** What an address may begin with. */
const SCHEMES = { hosted: [], etcd: ['etcd', 'etcds'], redis: ['redis', 'rediss'] } as const;
const PORTS = { etcd: 2379, etcds: 2379, redis: 6379, rediss: 6379 } as const;

/** Where the (first) server of `address` is. @throws UsageError, without the password, for one that is not of `backend`. */
export function placeOf(backend: keyof typeof SCHEMES, address: string): { masterAddr: string; masterPort: number } {
  const [, scheme, host, port] =
    /^(\w+):\/\/(?:[^/]*@)?(\[[^\]]+\]|[^:/,?@]+)(?::(\d{1,5}))?(?:[/,?][^@]*)?$/.exec(address) ?? [];
  const known = SCHEMES[backend].find((one) => one === scheme);
  if (known === undefined || host === undefined || Number(port) > 65_535) {
    const kinds = SCHEMES[backend].map((one) => `${one}://…`).join(' or ');
    const shown = withoutPassword(address);
    throw new UsageError(
      kinds === ''
        ? `the rendezvous store '${shown}' is for rendezvous 'etcd' or 'redis'`
        : `the rendezvous store '${shown}' is no address ${kinds}; in the name and the password of a user, / is written %2F, @ %40 and : %3A`,
    );
  }
  return { masterAddr: host.replace(/^\[|\]$/g, ''), masterPort: Number(port ?? PORTS[known]) };
}
