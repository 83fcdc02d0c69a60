/** @file PyTorch's answers to programs. */
import { PythonPeer } from '@backwire/testing';
import type { Conditioning, Outcome } from './outcome.ts';
import type { Program } from './program.ts';

/** What an answer with conditioning holds. */
export interface Judged {
  readonly outcome: Outcome;
  readonly conditioning: Conditioning;
}

/** What is known of a program that ended PyTorch's process. */
const CRASH: Judged = {
  outcome: { refusal: { at: -1, name: 'Crash', message: "PyTorch's process ended" }, seen: {} },
  conditioning: { exact: {} },
};

export class TorchPeer {
  private readonly python: string;
  private peer: PythonPeer | undefined;

  private constructor(python: string, peer: PythonPeer) {
    this.python = python;
    this.peer = peer;
  }

  /** Starts `python`; rejects with what it wrote when it has no torch. */
  static async start(python: string): Promise<TorchPeer> {
    return new TorchPeer(python, await open(python));
  }

  /** PyTorch's version. */
  get version(): string {
    return (this.peer?.greeting as { torch: string } | undefined)?.torch ?? '';
  }

  /** What each program comes to. One that ends the process gets a refusal of the name Crash; the others run in a new one. */
  async run(programs: readonly Program[]): Promise<Outcome[]> {
    return this.ask(programs, false, CRASH.outcome);
  }

  /** As `run`, and how well the values are determined. */
  async judge(programs: readonly Program[]): Promise<Judged[]> {
    return this.ask(programs, true, CRASH);
  }

  async stop(): Promise<void> {
    await this.peer?.stop();
  }

  private async ask<T>(programs: readonly Program[], conditioning: boolean, crash: T): Promise<T[]> {
    if (programs.length === 0) return [];
    this.peer ??= await open(this.python);
    const reply = await this.peer.ask({ programs, conditioning });
    if (reply !== undefined) return reply as T[];
    this.peer = undefined;
    if (programs.length === 1) return [crash];
    const half = Math.ceil(programs.length / 2);
    const left = await this.ask(programs.slice(0, half), conditioning, crash);
    return [...left, ...(await this.ask(programs.slice(half), conditioning, crash))];
  }
}

function open(python: string): Promise<PythonPeer> {
  return PythonPeer.start(python, new URL('peer.py', import.meta.url));
}
