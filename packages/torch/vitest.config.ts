import { shared } from '../../vitest.shared.ts';

export default shared(import.meta.dirname, { include: ['src/**/*.test.ts', 'test/**/*.test.ts'] });
