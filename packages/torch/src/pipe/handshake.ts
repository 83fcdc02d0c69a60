/**
 * @file What a pipe agrees on: the transport uv, which is plain TCP, and a channel for memory of the host: torch's basic, or the one of
 * workers of this kind, which needs no connection of its own. torch looks in an offer for the names it knows, and at no others.
 */
import { protocolError } from '@backwire/wire/internal';
import { CPU, ConnectionUse, type Brochure, type BrochureAnswer, type PipeDevice } from './packets.ts';

const TRANSPORT = 'uv';
const TRANSPORT_DOMAIN = 'uv:*';
const BASIC = 'basic';
/** All of a message on one connection. */
const PLAIN = 'backwire';

/** Channels that a pipe may have, each with the word by which two ends know that they mean the same. */
export const CHANNELS: ReadonlyMap<string, string> = new Map([
  [PLAIN, 'plain:1'],
  [BASIC, 'any'],
]);
const CHANNEL_DESCRIPTORS: Brochure['channels'] = new Map(
  [...CHANNELS].map(([channel, descriptor]) => [channel, new Map([[CPU, descriptor]])] as const),
);

/** What a dialler offers: one transport only, so that nothing has to be configured on torch's side. */
export function brochureOf(channels: readonly string[] = [...CHANNELS.keys()]): Brochure {
  const offered = [...CHANNEL_DESCRIPTORS].filter(([channel]) => channels.includes(channel));
  return { transports: new Map([[TRANSPORT, TRANSPORT_DOMAIN]]), channels: new Map(offered) };
}

function isCpu(device: PipeDevice): boolean {
  return device.type === CPU.type && device.index === CPU.index;
}

/**
 * The best channel of ours that an offer has.
 * @throws WireError 'protocol-error' for an offer without the transport or a channel, naming what was offered.
 */
export function chosenOf({ transports, channels }: Brochure, own: readonly string[] | undefined): string {
  if (transports.get(TRANSPORT) !== TRANSPORT_DOMAIN)
    throw protocolError(`the peer offers the transports ${listed(transports)}, and not ${TRANSPORT}`);
  for (const [channel, descriptor] of CHANNELS) {
    if (own?.includes(channel) === false) continue;
    const devices = [...(channels.get(channel) ?? [])];
    if (devices.some(([device, offered]) => isCpu(device) && offered === descriptor)) return channel;
  }
  throw protocolError(`the peer offers the channels ${listed(channels)}, and not ${BASIC} for the cpu`);
}

function listed(names: ReadonlyMap<string, unknown>): string {
  return [...names.keys()].map((name) => `'${name.slice(0, 40)}'`).join(', ');
}

/** The answer of a listener at `address`: one channel, and registrations for the connections that are to come, where it has some. */
export function answerTo(
  address: string,
  channel: string,
  awaited: { readonly reply: number; readonly channel: number } | undefined,
): BrochureAnswer {
  return {
    transport: TRANSPORT,
    address,
    registrations: new Map(awaited === undefined ? [] : [[ConnectionUse.REPLY, awaited.reply]]),
    domain: TRANSPORT_DOMAIN,
    channelRegistrations: new Map([[channel, awaited === undefined ? [] : [awaited.channel]]]),
    channelDescriptors: new Map([[channel, CHANNEL_DESCRIPTORS.get(channel) ?? new Map<PipeDevice, string>()]]),
    pairs: new Map([[[CPU, CPU], channel]]),
  };
}

/** Whether all of a message goes over one connection. */
export function isPlain(channel: string): boolean {
  return channel === PLAIN;
}

/** What a dialler has to do next: nothing, where one connection is all. */
export interface Agreed {
  /** Where the other connections go: 'host:port'. */
  readonly address: string;
  readonly reply: number;
  readonly channel: number;
}

/**
 * What an answer to the offer of these channels asks for; undefined where one connection is all.
 * @throws WireError 'protocol-error' for an answer that chose what was not offered.
 */
export function agreedIn(answer: BrochureAnswer, { channels: offered }: Brochure): Agreed | undefined {
  const { transport, domain, address, registrations, channelRegistrations, pairs } = answer;
  if (transport !== TRANSPORT || domain !== TRANSPORT_DOMAIN)
    throw protocolError(`the peer chose the transport '${transport.slice(0, 40)}'`);
  const [, chosen] = [...pairs].find(([[own, other]]) => isCpu(own) && isCpu(other)) ?? [];
  const plain = chosen === PLAIN && offered.has(PLAIN);
  const reply = registrations.get(ConnectionUse.REPLY);
  if (registrations.size !== (plain ? 0 : 1) || (reply === undefined && !plain))
    throw protocolError('the peer wants other connections than one for replies');
  const [channel, ...more] = channelRegistrations.get(plain ? PLAIN : BASIC) ?? [];
  if (channelRegistrations.size !== 1 || more.length > 0 || (channel === undefined) !== plain)
    throw protocolError(`the peer chose the channels ${listed(channelRegistrations)}`);
  if (plain) return undefined;
  if (chosen !== BASIC || reply === undefined || channel === undefined)
    throw protocolError('the peer chose no channel for the cpu');
  return { address, reply, channel };
}
