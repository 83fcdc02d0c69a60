/** @file Hosts for tests of networks: namespaces on one bridge, whose frames to one another can be made to vanish. Linux, as root. */
import { spawnSync } from 'node:child_process';

let networks = 0;
const SUBNET = '10.213';
/** A hardware address that nobody has: what is sent there is lost without a word, as on a cut cable. */
const NOWHERE = '02:00:00:00:00:99';

/** Why namespaces cannot be made here, for the name of a skipped test; undefined when they can. */
export function namespacesMissing(): string | undefined {
  if (process.platform !== 'linux') return 'network namespaces are a thing of Linux';
  if (process.getuid?.() !== 0) return 'network namespaces need root';
  const probe = `bwprobe${process.pid % 100_000}`;
  if (!ip(`netns add ${probe}`)) return 'network namespaces cannot be made here';
  const works = ip(`-n ${probe} link add name switch type bridge`) && ip(`-n ${probe} link set switch up`);
  ip(`netns del ${probe}`);
  return works ? undefined : 'bridges cannot be made here';
}

/** Why links cannot be made slow here, for the name of a skipped test; undefined when they can. */
export function throttlingMissing(): string | undefined {
  const missing = namespacesMissing();
  if (missing !== undefined) return missing;
  using network = new TestNetwork(1);
  try {
    network.throttle(0, 1_000_000);
    return undefined;
  } catch {
    return 'the kernel has no token bucket filter, or there is no tc';
  }
}

/** Hosts that all reach one another until they are cut off; disposing takes them away. */
export class TestNetwork implements Disposable {
  readonly size: number;
  readonly #id: string;
  readonly #subnet: string;
  readonly #onExit = (): void => this[Symbol.dispose]();

  constructor(size: number) {
    this.size = size;
    const n = networks++;
    this.#id = `bw${process.pid % 100_000}x${n}`;
    this.#subnet = `${SUBNET}.${(process.pid + 61 * n) % 250}`;
    process.once('exit', this.#onExit);
    this.#must(`netns add ${this.#switch}`);
    this.#must(`-n ${this.#switch} link add name switch type bridge`);
    this.#must(`-n ${this.#switch} link set switch up`);
    for (let host = 0; host < size; host++) this.#plug(host);
  }

  /** The address of a host. */
  address(host: number): string {
    return `${this.#subnet}.${host + 1}`;
  }

  /** What starts a program on a host. */
  inside(host: number): readonly string[] {
    return ['ip', 'netns', 'exec', this.#name(host)];
  }

  /** From now on nothing passes between the hosts of one side and those of the other. */
  cut(these: readonly number[], those: readonly number[]): void {
    this.#lose(these.flatMap((a) => those.flatMap((b) => pairs(a, b))));
  }

  /** From now on nothing passes between any two of these hosts. */
  part(hosts: readonly number[]): void {
    this.#lose(hosts.flatMap((from) => hosts.filter((to) => to !== from).map((to) => [from, to] as const)));
  }

  /** What `from` sends to `to` is lost; the other direction stands. */
  cutOneWay(from: number, to: number): void {
    this.#lose([[from, to]]);
  }

  /** Undoes `cut`. */
  mend(these: readonly number[], those: readonly number[]): void {
    for (const a of these)
      for (const b of those)
        for (const [from, to] of pairs(a, b))
          this.#must(`-n ${this.#name(from)} neigh del ${this.address(to)} dev net`);
  }

  /** From now on what a host sends leaves it at this rate, over a queue as routers have them: what does not fit is dropped. */
  throttle(host: number, bitsPerSecond: number): void {
    const rate = ['rate', `${bitsPerSecond}bit`, 'burst', '16kb', 'latency', '400ms'];
    const args = ['-n', this.#name(host), 'qdisc', 'replace', 'dev', 'net', 'root', 'tbf', ...rate];
    if (spawnSync('tc', args, { stdio: 'ignore' }).status !== 0) throw new Error(`tc ${args.join(' ')} failed`);
  }

  [Symbol.dispose](): void {
    process.off('exit', this.#onExit);
    for (let host = 0; host < this.size; host++) ip(`netns del ${this.#name(host)}`);
    ip(`netns del ${this.#switch}`);
  }

  get #switch(): string {
    return `${this.#id}b`;
  }

  #name(host: number): string {
    return `${this.#id}h${host}`;
  }

  #plug(host: number): void {
    const name = this.#name(host);
    this.#must(`netns add ${name}`);
    const port = `p${host}`;
    this.#must(`link add name net netns ${name} type veth peer name ${port} netns ${this.#switch}`);
    this.#must(`-n ${this.#switch} link set ${port} master switch up`);
    this.#must(`-n ${name} addr add ${this.address(host)}/24 dev net`);
    this.#must(`-n ${name} link set net up`);
    this.#must(`-n ${name} link set lo up`);
  }

  /** All at once, as when a switch fails: who is cut off first must not matter, however busy the machine is. */
  #lose(ways: readonly (readonly [number, number])[]): void {
    const lost = ways.map(([from, to]) => {
      const [name, address] = [this.#name(from), this.address(to)];
      return `ip -n ${name} neigh replace ${address} lladdr ${NOWHERE} nud permanent dev net & all="$all $!"`;
    });
    const script = `${lost.join('\n')}\nfor each in $all; do wait $each || exit 1; done`;
    if (spawnSync('sh', ['-c', script], { stdio: 'ignore' }).status !== 0) throw new Error(`cannot cut:\n${script}`);
  }

  #must(command: string): void {
    if (!ip(command)) throw new Error(`ip ${command} failed`);
  }
}

function pairs(a: number, b: number): [number, number][] {
  return [
    [a, b],
    [b, a],
  ];
}

/** Whether `ip` did it; no name or address of ours has a space. */
function ip(command: string): boolean {
  return spawnSync('ip', command.split(' '), { stdio: 'ignore' }).status === 0;
}
