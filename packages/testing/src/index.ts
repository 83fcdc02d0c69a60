/** @file The public surface of @backwire/testing. */
export {};
