/** @file Large tensors there and back: bytes per second and memory. */
import { ECHO_MIB, FULL, QUICK } from '../measure.ts';
import { publish } from '../published.ts';
import { BACKWIRE_PROGRAMS, startBackwire } from '../rpc/backwire.ts';
import { COPY, GRPC, OURS, OURS_CMA, OURS_TCP, RAW_TCP, RAW_UNIX, TORCH, withContestants } from '../rpc/contestants.ts';
import { copyRate } from '../rpc/raw.ts';
import { inTurns, rowsOf, type Pairing } from '../rpc/rounds.ts';
import { rowOf, type Row, type SuiteContext } from '../suite.ts';

export const name = 'tensors';

const PAIRINGS: readonly Pairing[] = [
  [OURS, RAW_UNIX],
  [OURS_TCP, RAW_TCP],
  [OURS, GRPC],
  [OURS, TORCH],
  [OURS_CMA, RAW_UNIX],
  [OURS_CMA, TORCH],
  [OURS, COPY],
];
/** From here on the cross-memory channel reads memory; everybody else sends it like larger ones. */
const WARM_UP_MIB = 1 / 4;
/** Bytes of one block at least: shorter ones show who was asleep, not who is fast. */
const BLOCK_MIB = 64;
/** Of the echo whose memory is measured. */
const MEMORY_MIB = 256;
const MEMORY_ECHOES = 4;

export async function run(context: SuiteContext): Promise<Row[]> {
  const effort = context.quick ? QUICK : FULL;
  const echoes = (mib: number): number => Math.max(effort.echoes(mib), Math.ceil(BLOCK_MIB / mib));
  const rows = await withContestants(context, async (all) => {
    const copy = {
      name: COPY,
      latency: () => undefined,
      throughput: () => undefined,
      echo: (mib: number, count: number) => Promise.resolve(copyRate(mib, count)),
      close: () => Promise.resolve(),
    };
    const made: Row[] = [];
    // Until the compilers have seen everything often enough; small tensors take the same way.
    await inTurns(all, 1, (contestant) => contestant.echo(WARM_UP_MIB, context.quick ? 2_000 : 10_000));
    for (const mib of ECHO_MIB) {
      // What fills the pools, and what compilers make of this size, is not counted.
      await inTurns(all, 2, (contestant) => contestant.echo(mib, Math.max(2, Math.ceil((2 * BLOCK_MIB) / mib))));
      const rates = await inTurns([...all, copy], effort.rounds, (each) => each.echo(mib, echoes(mib)));
      made.push(...rowsOf({ name: `tensor echo, ${mib} MiB`, unit: 'GiB/s', better: 'higher' }, rates, PAIRINGS));
    }
    return made;
  });
  return [...rows, ...(await memoryRows(context))];
}

/** Processes of their own: what was measured before leaves its pools behind. As they are published: a loader has some 70 MiB of its own. */
async function memoryRows(context: SuiteContext): Promise<Row[]> {
  const { programs, dispose } = await publish(BACKWIRE_PROGRAMS);
  try {
    const backwire = await startBackwire(OURS, { transports: ['unix'] }, programs);
    try {
      const { client, server } = await backwire.peak(MEMORY_MIB, MEMORY_ECHOES);
      if (client < 0) {
        context.log('without peak memory: this system does not say');
        return [];
      }
      const about = { unit: 'MiB', better: 'lower', against: 'the tensor' } as const;
      return [
        rowOf({ name: `peak memory, ${MEMORY_MIB} MiB echo, caller`, ...about }, [client], [MEMORY_MIB]),
        rowOf({ name: `peak memory, ${MEMORY_MIB} MiB echo, callee`, ...about }, [server], [MEMORY_MIB]),
      ];
    } finally {
      await backwire.close();
    }
  } finally {
    dispose();
  }
}
