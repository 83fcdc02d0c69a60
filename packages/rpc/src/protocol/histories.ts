/** @file A view whose store lost it, or the latest of it: how that shows, and what the view is from then on. Pure. */
import { EMPTY_VIEW, lifeOf, livesOf, MAX_DEPARTURES, removeAll, type Life, type View } from './membership.ts';

/** Changes that a restored view is ahead of the one that was known: far more than a group sees between two looks of a member. */
const RESTORED_EPOCHS = 1_000;

/** The view for a store that has forgotten everything, under an epoch that nobody has seen. */
export function restored(known: View): View {
  return { ...known, epoch: known.epoch + RESTORED_EPOCHS };
}

/** Whether a view was written into a store that had forgotten the one that was known. Whoever wrote it may have known an older one than this. */
export function isRestored(known: View, view: View): boolean {
  return view.epoch >= known.epoch + RESTORED_EPOCHS / 2;
}

/** Whether the view that came after `known` is of another history: one in which `self` never was, or that lacks what led to `known`. */
export function isOther(self: Life, known: View, view: View): boolean {
  if (known === EMPTY_VIEW) return false;
  if (view.founder === known.founder) return view.epoch > known.epoch && isForgetful(known, view);
  return !livesOf(view).lives.has(self);
}

/** Whether what a store has now is older than what it had before. */
export function isBehind(known: View, view: View): boolean {
  if (view.epoch > known.epoch || view.founder !== known.founder) return false;
  return view.epoch < known.epoch || isForgetful(known, view);
}

/**
 * Whether a store that has `view` has lost what led to `known`: a copy of it went on that lacked the latest changes, or somebody who had
 * not heard of them wrote the view again. Members went without a departure, or came back from one.
 */
function isForgetful(known: View, view: View): boolean {
  const [before, now] = [livesOf(known), livesOf(view)];
  if (before.departed.some((life) => now.lives.has(life))) return true;
  const lost = known.members.filter((_, i) => !now.lives.has(before.order[i] as Life));
  if (lost.length === 0) return false;
  const departed = new Set(now.departed);
  // A view remembers so many departures only: of one that was missed for longer, nothing can be said.
  if (departed.size >= MAX_DEPARTURES && !departed.has(before.departed.at(-1) ?? '')) return false;
  const latest = new Map(view.members.map(({ name, incarnation }) => [name, incarnation]));
  return lost.some((member) => !departed.has(lifeOf(member)) && (latest.get(member.name) ?? 0) < member.incarnation);
}

/**
 * The view of a group whose store lost what led to `known`, and went on from something else: those that were members before and those
 * that came, without those that departed in either. Of two lives of one name the later one stays, and whoever came with an id that a
 * member has does not.
 */
export function rejoined(known: View, found: View): View {
  const later = new Map(found.members.map((member) => [member.name, member]));
  const replaced = known.members.filter(
    ({ name, incarnation }) => (later.get(name)?.incarnation ?? incarnation) > incarnation,
  );
  const kept = removeAll(known, new Set(replaced.map(lifeOf)), 'dead');
  const [before, after] = [new Set(livesOf(kept).departed), new Set(livesOf(found).departed)];
  const stayed = kept.members.filter((member) => !after.has(lifeOf(member)));
  const [names, ids] = [new Set(stayed.map(({ name }) => name)), new Set(stayed.map(({ id }) => id))];
  const came = found.members.filter(
    (member) => !names.has(member.name) && !ids.has(member.id) && !before.has(lifeOf(member)),
  );
  const departed = [...kept.departed, ...found.departed.filter((one) => !before.has(lifeOf(one)))];
  return {
    ...kept,
    epoch: Math.max(known.epoch, found.epoch) + RESTORED_EPOCHS,
    members: [...stayed, ...came].sort((a, b) => a.id - b.id),
    departed: departed.slice(-MAX_DEPARTURES),
  };
}
