/** @file The public surface of @backwire/launch. */
export {};
