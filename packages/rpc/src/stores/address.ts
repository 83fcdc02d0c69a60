/** @file One address that holds all: where a store is, the part of it in which a group keeps its keys, and where browsers reach it. */
import { invalidArgument } from '../base/errors.ts';
import { MAX_KEY_BYTES } from './limits.ts';

/** A store's address taken apart. */
export interface StoreAddress {
  /** Where the store is. */
  readonly bare: string;
  /** Before every key; '' for none. */
  readonly prefix: string;
  /** What browsers dial; undefined when they are not served. */
  readonly ws: string | undefined;
}

/** 'tcp://host:port?prefix=run/7/&ws=ws://host:8080/backwire' of its parts. */
export function joinAddress(bare: string, prefix: string, ws?: string): string {
  const parts = [prefix === '' ? '' : `prefix=${escape(prefix)}`, ws === undefined ? '' : `ws=${escape(ws)}`];
  const given = parts.filter((part) => part !== '').join('&');
  return given === '' ? bare : `${bare}${bare.includes('?') ? '&' : '?'}${given}`;
}

/** Takes an address apart; what it says beside these stays in `bare`. @throws RpcError 'invalid-argument' for a malformed prefix. */
export function splitAddress(address: string): StoreAddress {
  const at = address.indexOf('?');
  if (at < 0) return { bare: address, prefix: '', ws: undefined };
  const rest: string[] = [];
  let prefix = '';
  let ws: string | undefined;
  for (const part of address.slice(at + 1).split('&')) {
    if (part.startsWith('prefix=')) prefix = unescape(part.slice('prefix='.length), address);
    else if (part.startsWith('ws=')) ws = unescape(part.slice('ws='.length), address);
    else rest.push(part);
  }
  if (prefix.length > MAX_KEY_BYTES / 4) throw invalidArgument('the prefix in the address is too long');
  const bare = address.slice(0, at) + (rest.length === 0 ? '' : `?${rest.join('&')}`);
  return { bare, prefix: prefix === '' || prefix.endsWith('/') ? prefix : `${prefix}/`, ws };
}

/** Readable where that does no harm. */
function escape(text: string): string {
  return encodeURIComponent(text).replaceAll('%2F', '/').replaceAll('%3A', ':');
}

function unescape(text: string, address: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw invalidArgument(`'${withoutPassword(address)}' is malformed: '${text}' is no escaped text`);
  }
}

/** An address of a store as it may be shown: without the name and the password of a user, be it well-formed or not. */
export function withoutPassword(address: string): string {
  return address.replace(/^(\w+:\/\/)?.*@/s, '$1');
}
