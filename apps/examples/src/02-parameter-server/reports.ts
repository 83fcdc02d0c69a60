/** @file What trainers report and what the run adds up to. */
import { backendName } from '@backwire/tensor';
import { bytesText, grouped, percentile, textTable, timeText } from '../shared/table.ts';

export const PHASES = ['data', 'forward', 'loss', 'backward', 'step'] as const;
export type Phase = (typeof PHASES)[number];

/** What one trainer did in one epoch. Times are milliseconds. */
export interface EpochReport {
  readonly samples: number;
  /** The position in epochs and the loss of every batch, one after the other: a typed array travels as it is, however long. */
  readonly losses: Float64Array;
  readonly phases: Record<Phase, number>;
  /** How long every call of `forward` took. */
  readonly forwardMs: Float64Array;
  /** The Chrome trace of what was profiled, as JSON; empty when nothing was. */
  readonly trace: Uint8Array;
  /** The profile's table; empty when not asked for. */
  readonly table: string;
}

/** The points of a flat list of coordinates. */
export function pairs(flat: Float64Array): [number, number][] {
  return Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i] ?? 0, flat[2 * i + 1] ?? 0]);
}

/** What went over the wire, as one worker's agent counted. */
export interface Traffic {
  readonly calls: number;
  readonly bytesSent: number;
}

export interface Summary {
  /** What computed, on the coordinator as on all. */
  readonly backend: string;
  readonly testAccuracy: number;
  /** The accuracy after each epoch. */
  readonly accuracyByEpoch: readonly number[];
  readonly epochs: number;
  readonly trainers: number;
  readonly batchSize: number;
  readonly lr: number;
  readonly seed: number;
  readonly samples: number;
  readonly samplesPerSecond: number;
  /** Training only, without start, evaluation and end. */
  readonly trainSeconds: number;
  /** The same for each epoch; in the first ones the engine is still compiling. */
  readonly secondsByEpoch: readonly number[];
  /** Calls of all workers, and the bytes they sent. */
  readonly calls: number;
  readonly bytes: number;
  /** Of `forward`, there and back, in milliseconds. */
  readonly callP50Ms: number;
  readonly callP99Ms: number;
  /** Milliseconds of all trainers together. */
  readonly phaseMs: Readonly<Record<Phase, number>>;
  readonly finalLoss: number;
}

/** Several reports as one. */
export function addUp(reports: readonly EpochReport[]): EpochReport {
  const points = reports.flatMap(({ losses }) => pairs(losses)).sort(([a], [b]) => a - b);
  return {
    samples: reports.reduce((sum, { samples }) => sum + samples, 0),
    losses: Float64Array.from(points.flat()),
    phases: Object.fromEntries(
      PHASES.map((phase) => [phase, reports.reduce((sum, { phases }) => sum + phases[phase], 0)]),
    ) as EpochReport['phases'],
    forwardMs: Float64Array.from(reports.flatMap(({ forwardMs }) => [...forwardMs])),
    trace: new Uint8Array(),
    table: '',
  };
}

/** Adds the reports of all trainers and epochs up. */
export function sumUp(
  options: { epochs: number; trainers: number; batchSize: number; lr: number; seed: number },
  epochReports: readonly (readonly EpochReport[])[],
  accuracyByEpoch: readonly number[],
  secondsByEpoch: readonly number[],
  traffic: readonly Traffic[],
): Summary {
  const { epochs, trainers, batchSize, lr, seed } = options;
  const reports = epochReports.flat();
  const samples = reports.reduce((sum, report) => sum + report.samples, 0);
  const trainSeconds = secondsByEpoch.reduce((sum, seconds) => sum + seconds, 0);
  const calls = reports.flatMap(({ forwardMs }) => [...forwardMs]);
  const last = (epochReports.at(-1) ?? []).flatMap(({ losses }) =>
    pairs(losses)
      .slice(-20)
      .map(([, loss]) => loss),
  );
  return {
    backend: backendName(),
    testAccuracy: accuracyByEpoch.at(-1) ?? 0,
    accuracyByEpoch,
    epochs,
    trainers,
    batchSize,
    lr,
    seed,
    samples,
    samplesPerSecond: samples / trainSeconds,
    trainSeconds,
    secondsByEpoch,
    calls: traffic.reduce((sum, worker) => sum + worker.calls, 0),
    bytes: traffic.reduce((sum, worker) => sum + worker.bytesSent, 0),
    callP50Ms: percentile(calls, 0.5),
    callP99Ms: percentile(calls, 0.99),
    phaseMs: Object.fromEntries(
      PHASES.map((phase) => [phase, reports.reduce((sum, { phases }) => sum + phases[phase], 0)]),
    ) as Record<Phase, number>,
    finalLoss: last.reduce((sum, loss) => sum + loss, 0) / last.length,
  };
}

/** The table at the end of a run. */
export function summaryTable(summary: Summary): string {
  const { phaseMs } = summary;
  const whole = PHASES.reduce((sum, phase) => sum + phaseMs[phase], 0);
  return textTable(
    ['result', 'value'],
    [
      ['test accuracy', `${(summary.testAccuracy * 100).toFixed(2)} %`],
      ['training loss at the end', summary.finalLoss.toFixed(4)],
      ['training time', `${summary.trainSeconds.toFixed(1)} s`],
      ['samples per second', grouped(summary.samplesPerSecond)],
      ['calls', grouped(summary.calls)],
      ['bytes sent', bytesText(summary.bytes)],
      ['forward call, p50', timeText(summary.callP50Ms)],
      ['forward call, p99', timeText(summary.callP99Ms)],
      ...PHASES.map((phase) => [
        `trainers: ${phase}`,
        `${timeText(phaseMs[phase])} ${((100 * phaseMs[phase]) / whole).toFixed(0).padStart(3)} %`,
      ]),
    ],
  );
}
