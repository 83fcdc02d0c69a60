/** @file The network of 04-pipeline-parallel in one piece, for TensorFlow.js alone. */
import * as tf from '@tensorflow/tfjs-core';
import { batchOf, CLASSES, generator, permutation, PIXELS, readDigits } from './examples.ts';
import type { Run } from './job.ts';

/** Inputs, outputs, width of the filter, step and padding of each convolution. */
const CONVOLUTIONS = [
  [1, 16, 5, 2, 2],
  [16, 16, 5, 2, 2],
  [16, 24, 5, 1, 2],
  [24, 32, 3, 2, 1],
  [32, 64, 3, 1, 1],
  [64, 64, 3, 1, 1],
] as const;
/** As in the example: the first batches are slower. */
const WARM_UP = 2;

export function train({ batches, batch, lr }: { batches: number; batch: number; lr: number }): Run {
  const digits = readDigits('train');
  const order = permutation(digits.count, generator(0));
  const conv = { wasm: twiceConvolved, tensorflow: padded }[tf.getBackend()] ?? tf.conv2d;
  const layers = CONVOLUTIONS.map(([from, to, width, stride, pad]) => {
    const bound = 1 / Math.sqrt(from * width * width);
    const filter = tf.variable<tf.Rank.R4>(tf.randomUniform([width, width, from, to], -bound, bound));
    const bias = tf.variable(tf.randomUniform([to], -bound, bound));
    return (x: tf.Tensor4D): tf.Tensor4D => tf.relu(tf.add(conv(x, filter, stride, pad), bias));
  });
  const features = 64 * 4 * 4;
  const bound = 1 / Math.sqrt(features);
  const w = tf.variable<tf.Rank.R2>(tf.randomUniform([features, CLASSES], -bound, bound));
  const b = tf.variable(tf.randomUniform([CLASSES], -bound, bound));
  const forward = (x: tf.Tensor4D): tf.Tensor =>
    tf.add(
      tf.matMul(
        tf.reshape<tf.Rank.R2>(
          layers.reduce((y, layer) => layer(y), x),
          [-1, features],
        ),
        w,
      ),
      b,
    );
  const optimizer = tf.train.adam(lr);
  const times: number[] = [];
  let value = 0;
  for (let done = 0; done < batches; done++) {
    const from = (done * batch) % (digits.count - batch);
    const began = performance.now();
    const { x, y } = batchOf(digits, order.subarray(from, from + batch));
    const side = Math.sqrt(PIXELS);
    const images = tf.tensor4d(x, [batch, side, side, 1]);
    const labels = tf.tidy(() => tf.oneHot(tf.tensor1d(Int32Array.from(y, Number), 'int32'), CLASSES));
    const loss = optimizer.minimize(() => tf.losses.softmaxCrossEntropy(labels, forward(images)), true);
    value = loss?.dataSync()[0] ?? Number.NaN;
    tf.dispose([images, labels, loss ?? []]);
    if (done >= WARM_UP) times.push(performance.now() - began);
  }
  const seconds = times.reduce((sum, ms) => sum + ms, 0) / 1_000;
  return { samplesPerSecond: (batch * times.length) / seconds, finalLoss: value };
}

/** The native kernels pad by themselves only what keeps its size. */
function padded(x: tf.Tensor4D, filter: tf.Tensor4D, stride: number, pad: number): tf.Tensor4D {
  if (stride === 1) return tf.conv2d(x, filter, 1, 'same');
  const sides = [pad, pad] as [number, number];
  return tf.conv2d(tf.pad(x, [[0, 0], sides, sides, [0, 0]]), filter, stride, 'valid');
}

/**
 * On wasm TensorFlow.js has no kernel for the gradient of a convolution's filter: it cannot train one. Who wants to all the same writes that
 * gradient as another convolution, of the transposed input with the transposed gradient.
 */
function twiceConvolved(x: tf.Tensor4D, filter: tf.Tensor4D, stride: number, pad: number): tf.Tensor4D {
  const convolve = tf.customGrad((...args) => {
    const [image, weights, save] = args as unknown as [tf.Tensor4D, tf.Tensor4D, (tensors: tf.Tensor[]) => void];
    save([image, weights]);
    return {
      value: tf.conv2d(image, weights, stride, pad),
      gradFunc: (dy, saved) => {
        const [input, used] = saved as [tf.Tensor4D, tf.Tensor4D];
        const [height, width] = used.shape;
        const back = tf.conv2dTranspose(dy as tf.Tensor4D, used, input.shape, stride, pad);
        const asImage = tf.transpose(input, [3, 1, 2, 0]);
        const asFilter = tf.transpose(dy as tf.Tensor4D, [1, 2, 0, 3]);
        const all = tf.conv2d(asImage, asFilter, 1, pad, 'NHWC', stride);
        const cut = tf.slice(all, [0, 0, 0, 0], [-1, height, width, -1]);
        return [back, tf.transpose(cut, [1, 2, 0, 3])];
      },
    };
  });
  return convolve(x, filter) as tf.Tensor4D;
}
