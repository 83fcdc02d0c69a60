/** @file The public surface of @backwire/rpc. */
export {};
