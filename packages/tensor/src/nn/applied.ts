/** @file Modules that are a function of their input, and of settings that are given when they are made. */
import { checkTensors } from '../ops/takes.ts';
import { checkMade } from '../arguments.ts';
import type { Tensor } from '../tensor.ts';
import { Module } from './module.ts';
import { SETTINGS, type Settings } from './printing.ts';

/** Settings, in the order in which the function behind the module takes them. */
export abstract class Setting<A extends readonly unknown[]> extends Module {
  protected readonly given: A;
  constructor(...given: A) {
    checkMade(new.target, given);
    super();
    this.given = given;
  }

  override [SETTINGS](): Settings {
    return this.given.map((value) => ['', value]);
  }
}

/** The module of `apply`. */
export function applied<A extends readonly unknown[]>(
  apply: (x: Tensor, ...given: A) => Tensor,
): new (...given: A) => Setting<A> & { forward(x: Tensor): Tensor } {
  return class extends Setting<A> {
    forward(x: Tensor): Tensor {
      checkTensors(`${this.constructor.name}.forward`, [x]);
      return apply(x, ...this.given);
    }
  };
}
