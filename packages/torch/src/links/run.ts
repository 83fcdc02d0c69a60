/** @file Runs the programs of pipes over connections, until those end. */
import { ByteReader, type Connection } from '@backwire/rpc/internal';
import type { PipeProgram } from '../pipe/program.ts';

/** Reads a connection with a program; `ended` is called once, with what the program or the connection failed with, or nothing. */
export function run(connection: Connection, program: PipeProgram, ended: (error?: Error) => void): void {
  let over = false;
  const end = (error?: Error): void => {
    if (over) return;
    over = true;
    ended(error);
  };
  try {
    connection.attach(new ByteReader(program, end));
  } catch (error) {
    // The program refused before it read anything.
    connection.destroy(error as Error);
    end(error as Error);
  }
}
