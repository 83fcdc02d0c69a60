#!/usr/bin/env node
/** @file The `backwire` command. */
import { command } from './command.ts';

process.exitCode = await command(process.argv.slice(2));
