/** @file The plan of a pass: the send functions it reaches, when all of them are known before it begins. */
import { MAX_PLAN } from '@backwire/wire/internal';
import type { Reached, Target } from './pass-types.ts';

/** What the receive functions that the roots reach lead to, themselves included; undefined when some do not say, or it is too much. */
export function planOf(reached: readonly Reached[]): readonly Target[] | undefined {
  const plan: Target[] = [];
  for (const { to, message, reach } of reached) {
    if (reach === undefined) return undefined;
    addTarget(plan, { to, message });
    for (const target of reach) addTarget(plan, target);
    if (plan.length > MAX_PLAN) return undefined;
  }
  return plan;
}

/** Adds a target to a short list of them, once. */
export function addTarget(targets: Target[], target: Target): void {
  for (const { to, message } of targets) if (message === target.message && to === target.to) return;
  targets.push(target);
}
