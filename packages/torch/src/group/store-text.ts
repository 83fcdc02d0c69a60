/** @file What a torch group keeps in its store: names of keys, and the text of their values. */
import { checkLimit } from '@backwire/wire/internal';
import { integerIn } from '../pickle/builtin-globals.ts';
import { quoted, refuse } from '../pickle/refusal.ts';

/** A worker as the list of members has it. */
export interface ListedMember {
  readonly name: string;
  readonly id: number;
}

/** The prefix of all keys but `ARRIVALS`: `generation` counts the `init_rpc` calls that a process made before. */
export function storePrefix(generation: number): string {
  return `rpc_prefix_${generation}`;
}

/** Counts who has come; without a prefix, and without the '/' before it. */
export const ARRIVALS = 'init/';
/** 'true' or 'false': whether the group's size is fixed. */
export const IS_STATIC = 'rpcIsStaticGroup';
/** Who may change a dynamic group; empty when nobody does. */
export const TOKEN = 'RpcGroupManagementToken';
/** The members of a dynamic group. */
export const MEMBERS = 'names/_ALL_WORKER_INFOS';
/** What `tokenOf` is set to by who gives the token back. */
export const TOKEN_DONE = 'Done';

/** The name of the worker with this id. */
export function nameKey(id: number): string {
  return `names/${id}`;
}

/** Where a worker listens. */
export function addressKey(name: string): string {
  return `addrs/${name}`;
}

/** Where a rank of the mesh of a static group listens. */
export function meshKey(rank: number): string {
  return `0/${rank}`;
}

/** The token of one change: its value, and the key that others wait for. */
export function tokenOf(name: string, change: 'join' | 'leave'): string {
  return `Token_for_${name}_${change}`;
}

/** The keys of round `round`, from 1 up, of a shutdown's wait for calls. */
export function shutdownKeys(round: number): { activeCalls: string; processes: string; ready: string } {
  const key = (what: string): string => `shutdown/${what}_ID_${round}`;
  return { activeCalls: key('ACTIVE_CALLS'), processes: key('PROCESS_COUNT'), ready: key('READY') };
}

const MAX_LIST = 8 * 1024 * 1024;
const MAX_ID = 0x7fff;

/** 'd0-0,d1-1,' as members. @throws WireError 'decode-error' for a list that torch would not write. */
export function readMembers(text: string): ListedMember[] {
  checkLimit('list of members', text.length, MAX_LIST);
  if (text === '') return [];
  if (!text.endsWith(',')) throw refuse(`a list of members without an end: ${quoted(text.slice(-40))}`);
  return text
    .slice(0, -1)
    .split(',')
    .map((entry) => {
      const dash = entry.lastIndexOf('-');
      const id = entry.slice(dash + 1);
      if (dash <= 0 || !/^\d{1,5}$/.test(id)) throw refuse(`${quoted(entry)} in the list of members is no name and id`);
      return { name: entry.slice(0, dash), id: integerIn(Number(id), 0, MAX_ID, 'the id of a member') };
    });
}

/** @throws WireError 'decode-error' for a name with '-' or ',': torch would take the list apart in another place. */
export function writeMembers(members: readonly ListedMember[]): string {
  return members
    .map(({ name, id }) => {
      if (/[-,]/.test(name))
        throw refuse(`a worker of a dynamic group may have no '-' or ',' in its name: ${quoted(name)}`);
      return `${name}-${id},`;
    })
    .join('');
}

/** 'uv://127.0.0.1:46147' as 'host:port'; a host of IPv6 has brackets there, whether it has them here or not. */
export function readAddress(text: string): string {
  const match = /^uv:\/\/([^/]{1,255}):(\d{1,5})$/.exec(text);
  if (match === null) throw refuse(`${quoted(text)} is no address of a worker: only uv is spoken here`);
  const host = (match[1] as string).replace(/^\[(.*)\]$/, '$1');
  const port = integerIn(Number(match[2]), 1, 0xffff, 'the port of a worker');
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** What says that a worker listens at `address`, 'host:port' with a host of IPv6 in brackets. */
export function writeAddress(address: string): string {
  return `uv://${address}`;
}
