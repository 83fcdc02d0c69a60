import { shared } from '../../vitest.shared.ts';

export default shared(import.meta.dirname, { include: ['{test,programs}/**/*.test.ts'], testTimeout: 60_000 });
