/** @file What a launcher says of the group it belongs to. */
import type { Rendezvous, Terms } from './rendezvous.ts';
import type { LaunchSettings } from './settings.ts';

/** Where the group's store is, in brackets, behind a space. */
export function whose({ backend, masterAddr, masterPort }: LaunchSettings): string {
  if (backend !== 'hosted') return ` (${backend} at ${masterAddr}:${masterPort})`;
  const advice = 'with --rdzv-backend etcd or redis it outlives every launcher';
  return ` (the launcher at ${masterAddr}:${masterPort} served it; ${advice})`;
}

/** Who has not come in `ms` milliseconds, as the host `id` sees it. */
export function missing(ms: number, id: string, terms: Terms, state: Rendezvous | undefined): string {
  const time = `${ms / 1000} s`;
  const hosts = state?.hosts ?? [];
  if (state?.waiting.some((host) => host.id === id) === true) return `the group had no room for this host in ${time}`;
  if (hosts.some(({ order }) => order === null)) return `${hosts.length} of ${terms.least} hosts came in ${time}`;
  const here = new Set(hosts.map(({ order }) => order));
  const absent = Array.from({ length: terms.least }, (_, n) => n).filter((n) => !here.has(n));
  return `hosts ${absent.join(', ')} of ${terms.least} did not come in ${time}`;
}
