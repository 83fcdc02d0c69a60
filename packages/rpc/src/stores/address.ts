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

/**
 * An address of a store as it may be shown: without the name and the password of a user, be it well-formed or not, and without the values
 * behind a question mark that are not ours: other clients take passwords there.
 */
export function withoutPassword(address: string): string {
  return address.replace(/^(\w+:\/\/)?.*@/s, '$1').replace(/([?&](?!prefix=|ws=)[^=&]*=)[^&]*/gs, '$1…');
}

/**
 * What the client of Redis would leave out, or take for something else, is refused before it is made.
 * @throws RpcError 'invalid-argument', without the password.
 */
export function checkRedisAddress(address: string): void {
  const shown = withoutPassword(address).replace(/#.*$/s, '#…');
  if (!URL.canParse(address))
    throw invalidArgument(
      `the store ${shown} is no address; in the name and the password of a user, / is written %2F, @ %40 and : %3A`,
    );
  const { search, hash, pathname, username, password } = new URL(address);
  const wrong =
    search !== '' || hash !== ''
      ? `${search === '' ? '#' : '?'} means nothing in it`
      : !/^\/?\d{0,9}$/.test(pathname)
        ? 'its database is a number'
        : isEscaped(username) && isEscaped(password)
          ? undefined
          : 'in the name and the password of a user, % is written %25';
  if (wrong !== undefined)
    throw invalidArgument(`the store ${shown}: ${wrong}; an address is redis://user:password@host:6379/database`);
}

function isEscaped(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}
