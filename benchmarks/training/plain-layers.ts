/** @file 784-128-10 by SGD with momentum, for TensorFlow.js alone. */
import * as tf from '@tensorflow/tfjs-core';
import { batchOf, CLASSES, generator, permutation, PIXELS, readDigits, shard } from './examples.ts';
import type { Run } from './job.ts';

const HIDDEN = 128;

export function train({ digits, batch, lr }: { digits: number; batch: number; lr: number }): Run {
  const own = shard(readDigits('train'), 0, 1, digits);
  const order = permutation(own.count, generator(0));
  const uniform = (from: number, to: number): tf.Variable =>
    tf.variable(tf.randomUniform([from, to], -1 / Math.sqrt(from), 1 / Math.sqrt(from)));
  const [w1, b1, w2, b2] = [uniform(PIXELS, HIDDEN), uniform(1, HIDDEN), uniform(HIDDEN, CLASSES), uniform(1, CLASSES)];
  const forward = (x: tf.Tensor2D): tf.Tensor =>
    tf.add(tf.matMul(tf.relu(tf.add(tf.matMul(x, w1 as tf.Tensor2D), b1)), w2 as tf.Tensor2D), b2);
  const optimizer = tf.train.momentum(lr, 0.9);
  const phases = { data: 0, step: 0 };
  const began = performance.now();
  let value = 0;
  let batches = 0;
  for (let from = 0; from < order.length; from += batch, batches++) {
    const start = performance.now();
    const { x, y, count } = batchOf(own, order.subarray(from, from + batch));
    const images = tf.tensor2d(x, [count, PIXELS]);
    const labels = tf.tidy(() => tf.oneHot(tf.tensor1d(Int32Array.from(y, Number), 'int32'), CLASSES));
    phases.data += performance.now() - start;
    const loss = optimizer.minimize(() => tf.losses.softmaxCrossEntropy(labels, forward(images)), true);
    value = loss?.dataSync()[0] ?? Number.NaN;
    tf.dispose([images, labels, loss ?? []]);
    phases.step += performance.now() - start;
  }
  const seconds = (performance.now() - began) / 1_000;
  phases.step -= phases.data;
  const perBatch = Object.fromEntries(Object.entries(phases).map(([phase, ms]) => [phase, ms / batches]));
  return { samplesPerSecond: own.count / seconds, finalLoss: value, phases: perBatch };
}
