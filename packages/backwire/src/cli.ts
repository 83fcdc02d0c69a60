#!/usr/bin/env node
/** @file The `backwire` command. */
import { main } from '@backwire/launch';

process.exitCode = await main(process.argv.slice(2));
