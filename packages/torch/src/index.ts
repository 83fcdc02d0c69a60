/** @file The public surface of @backwire/torch. */
export {};
