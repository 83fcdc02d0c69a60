/** @file A worker of the main job whose trainers begin no third epoch before the file `HELD_UNTIL` names is there: so long, others may come and go. */
import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

const job = new URL('../../examples/src/02-parameter-server/', import.meta.url);
const { Trainer } = await import(new URL('trainer.ts', job));

const { part } = Trainer.prototype;
Trainer.prototype.part = async function (epoch, ...batches) {
  while (epoch >= 2 && !existsSync(process.env.HELD_UNTIL)) await delay(50);
  return part.call(this, epoch, ...batches);
};

await import(new URL('worker.ts', job));
