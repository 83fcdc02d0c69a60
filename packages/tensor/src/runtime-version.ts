/** @file Refuses, in one sentence, a runtime that the packages do not run on. Both entries load it before anything else. */

/** The first versions that will do: of Node with modules that can be required, of Deno and Bun with sockets that read into a program's memory. */
const LEAST = { bun: ['Bun', 1, 4], deno: ['Deno', 2, 8], node: ['Node', 20, 19] } as const;

const versions = globalThis.process?.versions as Partial<Record<string, string>> | undefined;
// Bun and Deno have a version of Node too, the one that they are like.
const runtime = (['bun', 'deno', 'node'] as const).find((name) => versions?.[name] !== undefined);
if (runtime !== undefined) {
  const [name, leastMajor, leastMinor] = LEAST[runtime];
  const version = versions?.[runtime] ?? '';
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major < leastMajor || (major === leastMajor && minor < leastMinor)) {
    throw new Error(`Backwire needs ${name} ${leastMajor}.${leastMinor} or newer; this is ${name} ${version}`);
  }
}
