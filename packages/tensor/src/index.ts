/** @file The public surface of @backwire/tensor. */
export {};
