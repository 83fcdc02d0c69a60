/** @file The public surface of @backwire/rref. */
export {};
