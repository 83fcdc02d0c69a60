/** @file What a pipe agrees on: the transport uv, which is plain TCP, and the channel basic, for memory of the host. */
import { protocolError } from '@backwire/wire/internal';
import { CPU, ConnectionUse, type Brochure, type BrochureAnswer, type PipeDevice } from './packets.ts';

const TRANSPORT = 'uv';
const TRANSPORT_DOMAIN = 'uv:*';
const CHANNEL = 'basic';
const CHANNEL_DESCRIPTOR = 'any';

/** What a dialler offers: one way only, so that nothing has to be configured on torch's side. */
export const brochure: Brochure = Object.freeze({
  transports: new Map([[TRANSPORT, TRANSPORT_DOMAIN]]),
  channels: new Map([[CHANNEL, new Map([[CPU, CHANNEL_DESCRIPTOR]])]]),
});

function isCpu(device: PipeDevice): boolean {
  return device.type === CPU.type && device.index === CPU.index;
}

/** @throws WireError 'protocol-error' for an offer without the one way, naming what was offered. */
export function checkBrochure({ transports, channels }: Brochure): void {
  if (transports.get(TRANSPORT) !== TRANSPORT_DOMAIN)
    throw protocolError(`the peer offers the transports ${listed(transports)}, and not ${TRANSPORT}`);
  const devices = [...(channels.get(CHANNEL) ?? [])];
  if (!devices.some(([device, descriptor]) => isCpu(device) && descriptor === CHANNEL_DESCRIPTOR))
    throw protocolError(`the peer offers the channels ${listed(channels)}, and not ${CHANNEL} for the cpu`);
}

function listed(names: ReadonlyMap<string, unknown>): string {
  return [...names.keys()].map((name) => `'${name.slice(0, 40)}'`).join(', ');
}

/** The answer of a listener at `address`, with registrations for the connections that are to come. */
export function answerTo(address: string, reply: number, channel: number): BrochureAnswer {
  return {
    transport: TRANSPORT,
    address,
    registrations: new Map([[ConnectionUse.REPLY, reply]]),
    domain: TRANSPORT_DOMAIN,
    channelRegistrations: new Map([[CHANNEL, [channel]]]),
    channelDescriptors: brochure.channels,
    pairs: new Map([[[CPU, CPU], CHANNEL]]),
  };
}

/** What a dialler has to do next. */
export interface Agreed {
  /** Where the other connections go: 'host:port'. */
  readonly address: string;
  readonly reply: number;
  readonly channel: number;
}

/** @throws WireError 'protocol-error' for an answer that chose what was not offered. */
export function agreedIn(answer: BrochureAnswer): Agreed {
  const { transport, domain, address, registrations, channelRegistrations, pairs } = answer;
  if (transport !== TRANSPORT || domain !== TRANSPORT_DOMAIN)
    throw protocolError(`the peer chose the transport '${transport.slice(0, 40)}'`);
  const reply = registrations.get(ConnectionUse.REPLY);
  if (reply === undefined || registrations.size !== 1)
    throw protocolError('the peer wants other connections than one for replies');
  const channels = channelRegistrations.get(CHANNEL);
  const [channel] = channels ?? [];
  if (channel === undefined || channels?.length !== 1 || channelRegistrations.size !== 1)
    throw protocolError(`the peer chose the channels ${listed(channelRegistrations)}`);
  const pair = [...pairs].find(([[own, other]]) => isCpu(own) && isCpu(other));
  if (pair?.[1] !== CHANNEL) throw protocolError('the peer chose no channel for the cpu');
  return { address, reply, channel };
}
