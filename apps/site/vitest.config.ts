import { shared } from '../../vitest.shared.ts';

export default shared(import.meta.dirname, { include: ['{src,programs}/**/*.test.ts'], testTimeout: 60_000 });
