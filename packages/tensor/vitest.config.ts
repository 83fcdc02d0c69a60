import { shared } from '../../vitest.shared.ts';

/** Everything is tested on both backends that need no native addon. */
const backends = ['cpu', 'wasm'];

export default shared(import.meta.dirname, {
  projects: backends.map((backend) => ({
    extends: true as const,
    test: { name: `tensor-${backend}`, env: { BACKWIRE_BACKEND: backend } },
  })),
});
