/** @file Where the processes of a job spend their time, by V8's samples: kernels, messages, the collector, waiting. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

interface Frame {
  readonly functionName: string;
  readonly url: string;
}

interface CpuProfile {
  readonly nodes: readonly { readonly id: number; readonly callFrame: Frame }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

/** Of all profiles, a role's is the one that spends most in files which its sign matches. */
export interface RoleSign {
  readonly role: string;
  readonly sign: RegExp;
}

export interface Role {
  readonly role: string;
  readonly parts: readonly { readonly what: string; readonly share: number }[];
}

const WHAT = ['kernels', 'messages', 'collector', 'waiting', 'other'] as const;

/** Of the profiles in `folder`, one for each role. */
export function shares(folder: string, roles: readonly RoleSign[]): Role[] {
  const profiles = readdirSync(folder)
    .filter((file) => file.endsWith('.cpuprofile'))
    .map((file) => JSON.parse(readFileSync(join(folder, file), 'utf8')) as CpuProfile);
  const found: Role[] = [];
  for (const { role, sign } of roles) {
    const own = ({ url }: Frame): boolean => sign.test(url);
    const [most] = [...profiles].sort((a, b) => timeIn(b, own) - timeIn(a, own));
    if (most !== undefined && timeIn(most, own) > 0) found.push({ role, parts: parts(between(most, own)) });
  }
  return found;
}

/** From the first to the last sample in a frame that is such: neither start nor end belong to training. */
function between(profile: CpuProfile, is: (frame: Frame) => boolean): CpuProfile {
  const { nodes, samples, timeDeltas } = profile;
  const chosen = new Set(nodes.filter(({ callFrame }) => is(callFrame)).map(({ id }) => id));
  const first = samples.findIndex((id) => chosen.has(id));
  const end = samples.findLastIndex((id) => chosen.has(id)) + 1;
  return { nodes, samples: samples.slice(first, end), timeDeltas: timeDeltas.slice(first, end) };
}

function parts(profile: CpuProfile): Role['parts'] {
  const whole = timeIn(profile, () => true);
  return WHAT.map((what) => ({ what, share: timeIn(profile, (frame) => kindOf(frame) === what) / whole }));
}

function kindOf({ functionName, url }: Frame): (typeof WHAT)[number] {
  if (functionName === '(garbage collector)') return 'collector';
  if (functionName === '(idle)') return 'waiting';
  if (/^wasm:|\/packages\/tensor\/|\/koffi\//.test(url)) return 'kernels';
  if (
    /\/packages\/(rpc|wire|rref|dist-autograd|backwire)\/|^node:(net|internal\/(stream|net|timers|process))/.test(url)
  )
    return 'messages';
  return /^(writev|writeBuffer|writeLatin1String|writeUtf8String|readStart)$/.test(functionName) ? 'messages' : 'other';
}

/** Microseconds of the samples whose frame is such. */
function timeIn({ nodes, samples, timeDeltas }: CpuProfile, is: (frame: Frame) => boolean): number {
  const chosen = new Set(nodes.filter(({ callFrame }) => is(callFrame)).map(({ id }) => id));
  return samples.reduce((sum, id, i) => sum + (chosen.has(id) ? (timeDeltas[i] ?? 0) : 0), 0);
}
