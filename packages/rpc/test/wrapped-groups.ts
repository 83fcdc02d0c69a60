/** @file Groups of a program's around a process group, for tests of what replicas over them do. */
import type { nn } from '@backwire/tensor';

type Group = nn.ProcessGroup;

/** Inherits all that it does not know of. */
export function inheriting(group: Group): Group {
  return Object.assign(Object.create(group) as Group, {
    allReduce: (...args: Parameters<Group['allReduce']>) => group.allReduce(...args),
  });
}

/** Keeps a rank and size of its own, and gives on what it is given: nobody asks it for a seat. */
export function keeping(group: Group): Group {
  return {
    rank: group.rank,
    size: group.size,
    allReduce: (...args) => group.allReduce(...args),
    broadcast: (...args) => group.broadcast(...args),
  };
}

/** The same without what it does not know of. */
export function dropping(group: Group): Group {
  return {
    ...keeping(group),
    allReduce: (t, op) => group.allReduce(t, op),
    broadcast: (t, from) => group.broadcast(t, from),
  };
}

/** Asks the other for everything, and does not give on what else it is given. */
export function asking(group: Group): Group {
  return {
    get rank() {
      return group.rank;
    },
    get size() {
      return group.size;
    },
    allReduce: (t, op) => group.allReduce(t, op),
    broadcast: (t, from) => group.broadcast(t, from),
  };
}
