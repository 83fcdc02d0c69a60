import { shared } from '../../vitest.shared.ts';

const folder = import.meta.dirname;

/** Tests of what is published share one rehearsal of a release, which takes a minute or two: they are a project of their own. */
export default shared(folder, {
  projects: [
    shared(folder, { name: 'e2e', exclude: ['**/node_modules/**', 'src/publishing/**'] }),
    shared(folder, {
      name: 'publishing',
      include: ['src/publishing/**/*.test.ts'],
      globalSetup: ['src/publishing/rehearsal.ts'],
      testTimeout: 300_000,
      hookTimeout: 300_000,
    }),
  ],
});
