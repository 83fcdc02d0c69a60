/** @file The language model of 03-rnn-remote-embedding in one piece, for TensorFlow.js alone. */
import * as tf from '@tensorflow/tfjs-core';
import { readCorpus, windows } from './examples.ts';
import type { Run } from './job.ts';

interface Settings {
  readonly vocabulary: number;
  readonly embedding: number;
  readonly hidden: number;
  readonly columns: number;
  readonly steps: number;
  readonly lr: number;
  readonly chapters: number;
}

type State = readonly [tf.Tensor2D, tf.Tensor2D];

export function train(settings: Settings): Run {
  const { embedding, hidden, columns, lr, chapters } = settings;
  const { words, train: text, valid } = readCorpus(chapters, settings.vocabulary);
  const uniform = (shape: [number, number], bound: number): tf.Variable<tf.Rank.R2> =>
    tf.variable<tf.Rank.R2>(tf.randomUniform(shape, -bound, bound));
  const bound = 1 / Math.sqrt(hidden);
  const table = tf.variable<tf.Rank.R2>(tf.randomNormal([words.length, embedding]));
  const [wx, wh, b] = [
    uniform([embedding, 4 * hidden], bound),
    uniform([hidden, 4 * hidden], bound),
    uniform([1, 4 * hidden], bound),
  ];
  const [wo, bo] = [uniform([hidden, words.length], bound), uniform([1, words.length], bound)];
  const look = tf.getBackend() === 'wasm' ? lookUpByProduct : (t: tf.Tensor2D, ids: tf.Tensor1D) => tf.gather(t, ids);

  /** Logits of all words, step by step, and the state after them. */
  const forward = (ids: tf.Tensor1D, steps: number, state: State): [tf.Tensor2D, State] => {
    // The products of all inputs at once, those of the states step by step.
    const all: tf.Tensor2D = tf.add(tf.matMul(look(table, ids) as tf.Tensor2D, wx), b);
    // Its gradient of a split fails where there is one part.
    const inputs = steps === 1 ? [all] : tf.split(all, steps);
    let [h, c] = state;
    const outputs: tf.Tensor2D[] = [];
    for (const input of inputs) {
      const [i, f, g, o] = tf.split<tf.Tensor2D>(tf.add(input, tf.matMul(h, wh)), 4, 1) as [
        tf.Tensor2D,
        tf.Tensor2D,
        tf.Tensor2D,
        tf.Tensor2D,
      ];
      c = tf.add(tf.mul(tf.sigmoid(f), c), tf.mul(tf.sigmoid(i), tf.tanh(g)));
      h = tf.mul(tf.sigmoid(o), tf.tanh(c));
      outputs.push(h);
    }
    return [tf.add(tf.matMul(tf.concat(outputs), wo), bo), [h, c]];
  };
  const lossOf = (logits: tf.Tensor2D, targets: Int32Array): tf.Scalar =>
    tf.losses.softmaxCrossEntropy(tf.oneHot(tf.tensor1d(targets, 'int32'), words.length), logits);

  const ofTable = tf.train.adagrad(30 * lr);
  const ofOthers = tf.train.adam(lr);
  const start = (): State => [tf.zeros([columns, hidden]), tf.zeros([columns, hidden])];
  const began = performance.now();
  let state = start();
  let sum = 0;
  let batches = 0;
  for (const { inputs, targets, steps } of windows(text, columns, settings.steps)) {
    const before = state;
    const loss = tf.tidy(() => {
      const { value, grads } = tf.variableGrads(() => {
        const [logits, next] = forward(tf.tensor1d(inputs, 'int32'), steps, before);
        state = [tf.keep(next[0].clone()), tf.keep(next[1].clone())];
        return lossOf(logits, targets);
      });
      const { [table.name]: ofWords, ...others } = grads;
      ofTable.applyGradients([{ name: table.name, tensor: ofWords as tf.Tensor }]);
      ofOthers.applyGradients(Object.entries(others).map(([name, tensor]) => ({ name, tensor })));
      return value;
    });
    sum += loss.dataSync()[0] ?? Number.NaN;
    batches++;
    tf.dispose([loss, ...before]);
  }
  // As the example does, which counts the time for it.
  let held = start();
  for (const { inputs, targets, steps } of windows(valid, columns, settings.steps)) {
    const [next, loss] = tf.tidy(() => {
      const [logits, after] = forward(tf.tensor1d(inputs, 'int32'), steps, held);
      return [after as [tf.Tensor2D, tf.Tensor2D], lossOf(logits, targets)];
    });
    loss.dataSync();
    tf.dispose([loss, ...held]);
    held = next;
  }
  const seconds = (performance.now() - began) / 1_000;
  return { samplesPerSecond: text.length / seconds, finalLoss: sum / batches };
}

/**
 * On wasm TensorFlow.js has no kernel for the gradient of a lookup: it cannot train a table. Who wants to all the same writes that gradient as
 * a product.
 */
function lookUpByProduct(table: tf.Tensor2D, ids: tf.Tensor1D): tf.Tensor {
  const look = tf.customGrad((...args) => {
    const [rows, save] = args as unknown as [tf.Tensor2D, (tensors: tf.Tensor[]) => void];
    save([ids]);
    return {
      value: tf.gather(rows, ids),
      gradFunc: (dy, [read]) => {
        const chosen = tf.cast(tf.oneHot(read as tf.Tensor1D, rows.shape[0]), 'float32');
        return tf.matMul(chosen, dy, true);
      },
    };
  });
  return look(table);
}
