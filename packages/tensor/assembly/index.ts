/**
 * @file The kernels in WebAssembly, written in AssemblyScript: float32 in a heap that is given, at addresses in bytes, sizes in elements.
 * They allocate nothing and keep nothing but constants (`constants.ts`). Compiled by `npm run generate`.
 */
export { convolve, convolveFilter, convolveFilterSpace, convolveSpace } from './convolve';
export * from './elementwise';
export * from './reduce';
export { addRows, copyStrided, descendRows, placeStrided, put, reverseAxes, take, takeRows } from './move';
export { product, productSpace } from './product';
export * from './gru';
export * from './lstm';
export * from './rnn';
export * from './windows';
export * from './steps';
