/** @file Refuses, in one sentence, a Node that the packages do not run on. Both entries load it before anything else. */

/** The first version in which modules can be required. */
const LEAST = [20, 19] as const;

const version = globalThis.process?.versions?.node;
if (version !== undefined) {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major < LEAST[0] || (major === LEAST[0] && minor < LEAST[1])) {
    throw new Error(`Backwire needs Node ${LEAST.join('.')} or newer; this is Node ${version}`);
  }
}
