/** @file The public surface of backwire. */
export {};
