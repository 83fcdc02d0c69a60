import { setTimeout as delay } from 'node:timers/promises';
import { callContext, manualSeed, nn, noGrad, rpcFunction, type Tensor } from 'backwire';

manualSeed(1);
const layers = new nn.Sequential(new nn.Linear(4, 16), new nn.ReLU(), new nn.Linear(16, 3));

/** The chances of three classes [n, 3] for rows of four features [n, 4]. */
export const score = rpcFunction('service/score', (rows: Tensor) => noGrad(() => layers.forward(rows).softmax(1)), {
  scope: true, // what a call makes is freed when it is over
});

/** Says `prompt` again and again, a word at a time: a language model would stand here. */
export const generate = rpcFunction('service/generate', async function* (prompt: string, count: number) {
  const { signal } = callContext();
  const words = prompt.split(/\s+/);
  let said = 0;
  try {
    for (; said < count; said++) {
      await delay(20, undefined, { signal });
      yield words[said % words.length]!;
    }
  } finally {
    console.log(`generated ${said} of ${count}`);
  }
});
