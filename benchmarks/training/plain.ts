/** @file `plain.ts JOB BACKEND SETTINGS GRADIENTS`: a job as a program for TensorFlow.js alone, as its users write it; answers one line of JSON. */
import * as tf from '@tensorflow/tfjs-core';
import * as embedding from './plain-embedding.ts';
import * as layers from './plain-layers.ts';
import * as pipeline from './plain-pipeline.ts';
import type { Run } from './job.ts';

const JOBS = { parameterServer: layers.train, pipeline: pipeline.train, embedding: embedding.train } as const;

const [job, backend, settings, gradients] = process.argv.slice(2) as [keyof typeof JOBS, string, string, string];
await import(gradients);
await start(backend);
const run: Run = JOBS[job](JSON.parse(settings) as never);
console.log(JSON.stringify(run));

async function start(name: string): Promise<void> {
  if (name === 'tensorflow') {
    await import('./plain-tensorflow.ts');
  } else await (name === 'wasm' ? import('@tensorflow/tfjs-backend-wasm') : import('@tensorflow/tfjs-backend-cpu'));
  if (!(await tf.setBackend(name)) || tf.getBackend() !== name)
    throw new Error(`TensorFlow.js has no backend '${name}' here`);
}
