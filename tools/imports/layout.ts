/** @file The order of the rooms of each package: what the linter and the measurement hold the imports against. */

/**
 * The folders under `src`, from the top down: a file may import from its own room and from rooms further down the list. Files beside the
 * folders have no room: everybody may import them, but they lead no room to one above it. Tests may import anything.
 */
export const ROOMS: Readonly<Record<string, readonly string[]>> = {
  tensor: ['nn', 'optim', 'autograd/derivatives', 'autograd/backward', 'ops', 'autograd', 'backends', 'gen'],
  wire: ['testdata', 'gen'],
  rpc: [
    'agent',
    'inspection',
    'membership',
    'client',
    'server',
    'session',
    'extensions',
    'liveness',
    'stores',
    'connect',
    'transports',
    'security',
    'protocol',
    'base',
    'gen',
  ],
  rref: ['client', 'owner', 'messages', 'protocol'],
  'dist-autograd': ['engine', 'protocol'],
  profiler: ['metrics'],
  launch: [],
  torch: [
    'joining',
    'rrefs',
    'autograd',
    'calls',
    'operators',
    'links',
    'file',
    'gloo',
    'group',
    'pipe',
    'messages',
    'table',
    'pickle',
    'nop',
    'values',
  ],
  backwire: ['dashboard', 'inspect'],
  testing: [],
};
