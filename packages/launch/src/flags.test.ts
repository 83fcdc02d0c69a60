/** @file Flags in all their spellings, and what is wrong with wrong ones. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { LaunchError } from './errors.ts';
import { FLAGS, parseFlags, strayFlag } from './flags.ts';
import { launchOptions } from './run-command.ts';

const parse = (argv: readonly string[], env: NodeJS.ProcessEnv = {}) => parseFlags(argv, env);
const options = (argv: readonly string[], env: NodeJS.ProcessEnv = {}) =>
  launchOptions(parseFlags([...argv, 'p.ts'], env));

afterEach(() => {
  vi.unstubAllEnvs();
});

describe('parseFlags', () => {
  it('reads every flag with dashes, with underscores, with = and from its PET_ variable', () => {
    for (const flag of FLAGS) {
      const value = flag.value === undefined ? 'true' : '7';
      const under = flag.name.replaceAll('-', '_');
      const given = flag.value === undefined ? [] : [value];
      for (const argv of [[`--${flag.name}`, ...given], [`--${under}`, ...given], [`--${under}=${value}`]]) {
        expect(parse([...argv, 'p.ts']).values.get(flag.name), argv.join(' ')).toBe(value);
      }
      expect(
        parse(['p.ts'], { [`PET_${under.toUpperCase()}`]: flag.value === undefined ? '1' : value }).values.get(
          flag.name,
        ),
      ).toBe(value);
    }
  });

  it("knows torchrun's names for what has another name here, and says what it has not", () => {
    for (const parsed of [parse(['--shutdown-timeout', '9', 'p.ts']), parse(['p.ts'], { PET_SHUTDOWN_TIMEOUT: '9' })])
      expect(parsed.values.get('stop-grace')).toBe('9');
    expect(parse(['p.ts'], { PET_NO_PYTHON: '1' }).values.get('no-node')).toBe('true');
    const foreign = [
      'numa-binding',
      'logs_specs',
      'duplicate-stdout-filters',
      'event-log-handler',
      'virtual-local-rank',
    ];
    for (const flag of foreign) expect(() => parse([`--${flag}=x`, 'p.ts'])).toThrow(`flag --${flag}=x: `);
  });

  it('lets the command line win over the environment', () => {
    expect(parse(['--nproc-per-node', '2', 'p.ts'], { PET_NPROC_PER_NODE: '8' }).values.get('nproc-per-node')).toBe(
      '2',
    );
  });

  it('leaves everything after the program to the program', () => {
    const { program, args } = parse(['--standalone', 'p.ts', '--nnodes', '3', '--', '-x', '--standalone']);
    expect(program).toBe('p.ts');
    expect(args).toEqual(['--nnodes', '3', '--', '-x', '--standalone']);
  });

  it('finds a flag of its own that stands after the program', () => {
    expect(strayFlag(['x', '--nproc_per_node=2', '--nnodes', '3'])).toBe('--nproc_per_node=2');
    expect(strayFlag(['--rdzv-id', 'a'])).toBe('--rdzv-id');
    // A program may have these itself, or says that it has.
    for (const args of [[], ['--role', 'a'], ['nnodes'], ['--', '--nnodes', '3'], ['--nnodes-of', '3']])
      expect(strayFlag(args), args.join(' ')).toBeUndefined();
  });

  it('takes -- as the end of the flags', () => {
    expect(parse(['--standalone', '--', '-odd-name.ts', 'a'])).toMatchObject({ program: '-odd-name.ts', args: ['a'] });
  });

  it('names an unknown flag and the likely one', () => {
    expect(() => parse(['--nproc-per-nod', '2', 'p.ts'])).toThrow(
      "unknown flag '--nproc-per-nod'; did you mean --nproc-per-node?",
    );
    expect(() => parse(['--wrong', 'p.ts'])).toThrow("unknown flag '--wrong'");
  });

  it('names the flag that lacks its value or has one too many', () => {
    expect(() => parse(['--nnodes'])).toThrow('flag --nnodes needs a value');
    expect(() => parse(['--standalone=3', 'p.ts'])).toThrow("flag --standalone takes no value, got '3'");
  });
});

describe('launchOptions', () => {
  it('has torchrun defaults', () => {
    expect(options([])).toMatchObject({
      processes: 1,
      nodes: 1,
      nodeRank: 0,
      masterAddr: '127.0.0.1',
      masterPort: 29_500,
      maxRestarts: 0,
    });
  });

  it('takes any free port with --standalone', () => {
    expect(options(['--standalone', '--nproc-per-node=3', '--master-port', '29500'])).toMatchObject({
      processes: 3,
      masterPort: 0,
    });
  });

  it('reads the rendezvous endpoint', () => {
    expect(options(['--rdzv-backend=c10d', '--rdzv-endpoint=host.example'])).toMatchObject({
      masterAddr: 'host.example',
      masterPort: 29_400,
    });
    expect(options(['--rdzv-endpoint=[::1]:1234'])).toMatchObject({ masterAddr: '::1', masterPort: 1_234 });
  });

  it('counts the processors for auto', () => {
    expect(options(['--nproc-per-node=auto']).processes).toBeGreaterThan(0);
  });

  it.each([
    [['--nproc-per-node', 'many'], "flag --nproc-per-node: 'many' is not a whole number"],
    [['--nproc-per-node', '0'], 'flag --nproc-per-node has to be at least 1'],
    [['--nnodes', '1:4'], 'flag --nnodes: 1 to 4 hosts need --rdzv-backend c10d, etcd or redis'],
    [['--nnodes', '4:1', '--rdzv-backend', 'c10d'], 'flag --nnodes: 1 is less than 4'],
    [['--membership', 'open'], "flag --membership: 'open' is neither static nor dynamic"],
    [['--rdzv-backend', 'etcd'], 'flag --rdzv-backend etcd needs --rdzv-endpoint, or an address such as etcds://… in'],
    [['--nnodes', '2', '--node-rank', '2'], 'flag --node-rank: 2 is not below --nnodes'],
    [['--nnodes', '2', '--standalone'], 'flag --standalone is for one host'],
    [['--master-port', '70000'], 'flag --master-port: 70000 is above 65535'],
    [['--rdzv-backend', 'etcd-v2'], "flag --rdzv-backend: 'etcd-v2' is not supported"],
    [['--rdzv-id', '../up'], "flag --rdzv-id: '../up' may have letters"],
    [['--tee', '4'], "flag --tee: '4' is neither"],
    [
      ['--nproc-per-node', '2', '-r', '0:1,2:3'],
      'flag --redirects: no worker here has the local rank 2; they have 0 to 1',
    ],
    [['--tee', '1:3'], 'flag --tee: no worker here has the local rank 1; they have 0 to 0'],
    [['--local-ranks-filter', '0,7'], 'flag --local-ranks-filter: no worker here has the local rank 7'],
    [['-r', '0:1,x'], "flag --redirects: '0:1,x' is neither"],
    [['--signals-to-handle', 'SIGNOPE'], "there is no signal 'SIGNOPE'"],
    [['--signals-to-handle', 'SIGTERM,SIGKILL'], "flag --signals-to-handle: no process can handle 'SIGKILL'"],
    [
      ['--rdzv-conf', 'timeout=9,jointimeout=3'],
      "flag --rdzv-conf: there is no 'jointimeout'; did you mean 'join_timeout'?",
    ],
    [['--stop-grace', 'soon'], "flag --stop-grace: 'soon' is not a number of seconds"],
  ])('refuses %j', (argv, message) => {
    expect(() => options(argv)).toThrow(message);
  });

  it.each([
    ['--rdzv-endpoint', 'default:hunter2@127.0.0.1:6379'],
    ['--rdzv-endpoint', 'redis://:hunter2@127.0.0.1'],
    ['--rdzv-endpoint', 'hunter2@127.0.0.1:6379'],
    ['--master-addr', 'user:hunter2@127.0.0.1'],
  ])('refuses a password, and does not repeat it: %s %s', (flag, value) => {
    const refused = (): unknown => options([flag, value]);
    expect(refused).toThrow(`flag ${flag} takes no user and no password`);
    expect(refused).not.toThrow('hunter2');
  });

  it('takes the address of the rendezvous from the environment, where a password is not shown to all', () => {
    const address = 'rediss://ann:hunter2@redis.example:6380/2';
    vi.stubEnv('BACKWIRE_RENDEZVOUS', address);
    expect(options(['--rdzv-backend', 'redis'])).toMatchObject({ rendezvous: 'redis', rendezvousStore: address });
    const endpoint = options(['--rdzv-backend', 'redis', '--rdzv-endpoint', 'other']);
    expect(endpoint).toMatchObject({ masterAddr: 'other', masterPort: 6379 });
    expect(endpoint).not.toHaveProperty('rendezvousStore');
    expect(options(['--rdzv-backend', 'c10d'])).not.toHaveProperty('rendezvousStore');
  });

  it('refuses to run nothing', () => {
    expect(() => launchOptions(parseFlags(['--standalone'], {}))).toThrow('which program?');
  });
});

it('say where there is no folder in which one for logs could be made', () => {
  vi.stubEnv('TMPDIR', '/nowhere/at/all');
  expect(() => options(['--tee', '3'])).toThrow(
    new LaunchError(
      "no folder for the logs can be made in '/nowhere/at/all': ENOENT: no such file or directory, mkdtemp '/nowhere/at/all/backwire-logs-XXXXXX'; --log-dir names another",
    ),
  );
  expect(options(['--tee', '3', '--log-dir', 'here']).logDir).toBe('here');
});
