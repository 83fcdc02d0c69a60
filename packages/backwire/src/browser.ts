/** @file The same for pages, which start no processes. */
export * from './surface.ts';
