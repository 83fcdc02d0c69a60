/** @file Failures on purpose: the first sends of a message type fail, others are held back. */
import { messageTypeName, messageTypeOf } from '@backwire/wire/internal';
import { makeRpcError } from '@backwire/wire';
import { RpcError } from './errors.ts';
import type { FaultInjection } from './options.ts';

export class Faults {
  private readonly failures = new Map<number, number>();
  private readonly delays = new Map<number, number>();
  private readonly active: boolean;

  /** @throws RpcError 'invalid-argument' for a name that is no message type. */
  constructor(faults: FaultInjection = {}) {
    fill(this.failures, faults.failFirst);
    fill(this.delays, faults.delayMs);
    this.active = this.failures.size > 0 || this.delays.size > 0;
  }

  /** By how many milliseconds this send is held back. @throws RpcError 'unavailable' when it is one of those that fail. */
  check(type: number): number {
    if (!this.active) return 0;
    const left = this.failures.get(type) ?? 0;
    if (left > 0) {
      this.failures.set(type, left - 1);
      const text = makeRpcError(
        `Send attempt failed intentionally for ${messageTypeName(type)}`,
        'intentional-failure',
      );
      throw new RpcError('unavailable', text, { executed: 'no' });
    }
    return this.delays.get(type) ?? 0;
  }
}

function fill(table: Map<number, number>, given: Partial<Record<string, number>> | undefined): void {
  for (const [name, value] of Object.entries(given ?? {})) {
    const type = messageTypeOf(name);
    if (type === undefined) throw new RpcError('invalid-argument', `no message type is named '${name}'`);
    if (value === undefined || !(value >= 0))
      throw new RangeError(`faults: ${name} must not be negative, got ${String(value)}`);
    table.set(type, value);
  }
}
