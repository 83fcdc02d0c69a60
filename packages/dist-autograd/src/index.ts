/** @file The public surface of @backwire/dist-autograd. */
export {};
