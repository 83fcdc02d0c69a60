/** @file The errors this package throws. */

/** Base of the errors below. */
export class TensorError extends Error {
  override readonly name: string = 'TensorError';
}

/** Shapes, dimensions or sizes that do not fit. */
export class ShapeError extends TensorError {
  override readonly name = 'ShapeError';
}

/** A dtype an operation cannot work on. */
export class DTypeError extends TensorError {
  override readonly name = 'DTypeError';
}

/** A tensor, or its memory, was used after it was disposed. */
export class DisposedError extends TensorError {
  override readonly name = 'DisposedError';
}

/** Differentiation that cannot be done: no graph, graph freed, saved value changed. */
export class AutogradError extends TensorError {
  override readonly name = 'AutogradError';
}

/** A state that the code rules out. */
export class InvariantError extends Error {
  override readonly name = 'InvariantError';
}
