/** @file The environment of a worker: torchrun's variables, and the group's secret. */

/** Where one worker stands in the group. */
export interface Place {
  readonly rank: number;
  readonly localRank: number;
  /** Undefined in a group that grows and shrinks while it runs. */
  readonly worldSize: number | undefined;
  readonly localWorldSize: number;
  readonly nodeRank: number;
  readonly nodes: number;
  readonly role: string;
  readonly masterAddr: string;
  readonly masterPort: number;
  readonly runId: string;
  readonly restartCount: number;
  readonly maxRestarts: number;
  /** Undefined when the workers read it from the file that the launcher's environment names. */
  readonly secret: string | undefined;
}

/** The variables of one worker; they are laid over the launcher's own, where undefined removes what it may have. */
export function workerEnvironment(place: Place): Record<string, string | undefined> {
  const worldSize = place.worldSize === undefined ? undefined : String(place.worldSize);
  return {
    RANK: String(place.rank),
    LOCAL_RANK: String(place.localRank),
    GROUP_RANK: String(place.nodeRank),
    ROLE_RANK: String(place.rank),
    ROLE_NAME: place.role,
    // Absent where there is none, as under no launcher: an empty one would be read as the number 0.
    WORLD_SIZE: worldSize,
    LOCAL_WORLD_SIZE: String(place.localWorldSize),
    GROUP_WORLD_SIZE: String(place.nodes),
    ROLE_WORLD_SIZE: worldSize,
    MASTER_ADDR: place.masterAddr,
    MASTER_PORT: String(place.masterPort),
    BACKWIRE_RESTART_COUNT: String(place.restartCount),
    BACKWIRE_MAX_RESTARTS: String(place.maxRestarts),
    BACKWIRE_RUN_ID: place.runId,
    ...(place.secret === undefined ? {} : { BACKWIRE_SECRET: place.secret }),
  };
}
