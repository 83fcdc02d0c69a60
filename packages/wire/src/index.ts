/** @file The public surface of @backwire/wire. */
export {};
