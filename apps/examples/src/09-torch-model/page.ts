/** @file The page: draws a digit and shows what the network makes of it; at #rate it turns the learning rate instead. A worker like any other. */
/// <reference lib="dom" />
import { createAgent } from 'backwire';
import { py, throughGateway } from '@backwire/torch/gateway';
import { Chart, paintMaps, showChances, Sketch } from './drawing.ts';
import { fields, running, type Progress } from './training.ts';

const element = (id: string): HTMLElement => document.getElementById(id) as HTMLElement;
const say = (text: string): void => void (element('says').textContent = text);
document.body.className = location.hash === '#rate' ? 'rate' : 'draw';

const settings = JSON.parse(element('settings').textContent) as { store: string; secret: string };
const agent = await createAgent({
  name: `page-${crypto.randomUUID()}`,
  group: 'digits',
  membership: 'dynamic',
  serve: [],
  store: settings.store,
  security: { mode: 'hmac', secret: settings.secret },
});
// A page that is kept for the way back goes on when it is shown again, or is fenced.
addEventListener('pagehide', ({ persisted }) => {
  if (!persisted) void agent.shutdown({ graceful: false });
});
agent.on('fenced', () => location.reload());

/** The training in the PyTorch process, through the gateway: a reference, whose methods are calls. */
const reference = await throughGateway('web').rpcSync('python', running, [], { agent });
const training = reference.rpcSync({ timeoutMs: 5_000 });

const sketch = new Sketch(element('paper') as HTMLCanvasElement);
element('clear').addEventListener('click', () => sketch.clear());
const slider = element('slider') as HTMLInputElement;
slider.addEventListener('change', () => {
  training.set_rate(py.float(Number(slider.value))).catch((error: unknown) => say(String(error)));
});

const losses = new Chart(element('losses') as HTMLCanvasElement);
function show(progress: Progress): void {
  const { step, loss, rate } = fields(progress);
  losses.add(loss);
  say(`step ${step}, loss ${loss.toFixed(3)}, learning rate ${rate.toFixed(3)}`);
}

async function look(): Promise<void> {
  using image = sketch.image();
  const { chances, edges, parts } = fields(await training.look(image));
  paintMaps(element('edges') as HTMLCanvasElement, edges);
  paintMaps(element('parts') as HTMLCanvasElement, parts);
  element('digit').textContent = showChances(element('chances'), chances);
  for (const tensor of [chances, edges, parts]) tensor.dispose();
}

slider.value = String(fields(await training.progress()).rate);
for (;;) {
  try {
    show(await training.progress());
    // Only what has ink is worth a look.
    if (!sketch.isBlank) await look();
  } catch (error) {
    say(String(error));
  }
  await new Promise((resolve) => setTimeout(resolve, 150));
}
