/** @file `backwire run`, which the launcher is; in a file of its own, so that only who runs it loads it. */
export { commandProcess as runCommand } from '@backwire/launch/internal';
