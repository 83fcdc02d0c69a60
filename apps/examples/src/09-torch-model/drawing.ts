/** @file What the page paints: the digit under the pointer, activations, chances, a curve. */
/// <reference lib="dom" />
import { tensor, type Tensor } from 'backwire';

const SIDE = 28;

function context(canvas: HTMLCanvasElement): CanvasRenderingContext2D {
  return canvas.getContext('2d', { willReadFrequently: true }) as CanvasRenderingContext2D;
}

/** A sheet of paper for a digit. */
export class Sketch {
  isBlank = true;
  private readonly canvas: HTMLCanvasElement;
  private readonly pen: CanvasRenderingContext2D;

  constructor(canvas: HTMLCanvasElement) {
    this.canvas = canvas;
    this.pen = context(canvas);
    this.clear();
    canvas.addEventListener('pointerdown', (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.pen.beginPath();
      this.pen.moveTo(event.offsetX, event.offsetY);
    });
    canvas.addEventListener('pointermove', ({ buttons, offsetX, offsetY }) => {
      if (buttons !== 1) return;
      this.isBlank = false;
      this.pen.lineTo(offsetX, offsetY);
      this.pen.stroke();
    });
  }

  clear(): void {
    this.isBlank = true;
    this.pen.fillStyle = '#fff';
    this.pen.fillRect(0, 0, this.canvas.width, this.canvas.height);
    Object.assign(this.pen, { lineWidth: this.canvas.width / 11, lineCap: 'round', lineJoin: 'round' });
  }

  /** The digit as those of the data are: float32 [28, 28], in a box of 20 by 20 whose centre of mass is in the middle. The caller disposes it. */
  image(): Tensor {
    const { width } = this.canvas;
    const pixels = this.pen.getImageData(0, 0, width, width).data;
    const { left, top, right, bottom, x, y } = ink(pixels, width);
    const scale = 20 / Math.max(right - left, bottom - top, 1);
    const [toX, toY] = [SIDE / 2 - (x - left) * scale, SIDE / 2 - (y - top) * scale];
    const small = context(Object.assign(document.createElement('canvas'), { width: SIDE, height: SIDE }));
    small.fillStyle = '#fff';
    small.fillRect(0, 0, SIDE, SIDE);
    const [w, h] = [(right - left) * scale, (bottom - top) * scale];
    small.drawImage(this.canvas, left, top, right - left, bottom - top, toX, toY, w, h);
    const grey = small.getImageData(0, 0, SIDE, SIDE).data;
    return tensor(
      Array.from({ length: SIDE }, (_row, y) =>
        Array.from({ length: SIDE }, (_column, x) => 1 - (grey[4 * (y * SIDE + x)] ?? 255) / 255),
      ),
    );
  }
}

/** The box around all ink, and its centre of mass. */
function ink(
  pixels: Uint8ClampedArray,
  width: number,
): Record<'left' | 'top' | 'right' | 'bottom' | 'x' | 'y', number> {
  const found = { left: width, top: width, right: 0, bottom: 0, x: 0, y: 0 };
  let mass = 0;
  for (let i = 0; i < pixels.length / 4; i++) {
    if ((pixels[4 * i] ?? 255) > 127) continue;
    const [x, y] = [i % width, Math.floor(i / width)];
    found.left = Math.min(found.left, x);
    found.top = Math.min(found.top, y);
    found.right = Math.max(found.right, x + 1);
    found.bottom = Math.max(found.bottom, y + 1);
    found.x += x;
    found.y += y;
    mass += 1;
  }
  return { ...found, x: found.x / Math.max(mass, 1), y: found.y / Math.max(mass, 1) };
}

/** Paints the maps [n, side, side] of a layer, eight in a row, each pixel of the network as one of the canvas. */
export function paintMaps(canvas: HTMLCanvasElement, maps: Tensor): void {
  const [count = 0, side = 0] = maps.shape;
  const values = maps.toArray() as number[][][];
  const most = Math.max(1e-6, ...values.flat(2));
  canvas.width = 8 * (side + 1) - 1;
  canvas.height = Math.ceil(count / 8) * (side + 1) - 1;
  const paint = context(canvas);
  values.forEach((map, n) => {
    const image = paint.createImageData(side, side);
    map.flat().forEach((value, i) => {
      const heat = value / most;
      image.data.set([255 * heat, 90 * heat + 165 * heat * heat, 60 + 40 * heat, 255], 4 * i);
    });
    paint.putImageData(image, (n % 8) * (side + 1), Math.floor(n / 8) * (side + 1));
  });
}

/** Shows the ten chances as bars; the digit that is the likeliest. */
export function showChances(list: HTMLElement, chances: Tensor): string {
  const values = chances.toArray() as number[];
  const best = values.indexOf(Math.max(...values));
  list.replaceChildren(
    ...values.map((chance, digit) => {
      const bar = document.createElement('li');
      bar.textContent = String(digit);
      bar.style.setProperty('--chance', chance.toFixed(3));
      bar.className = digit === best ? 'best' : '';
      return bar;
    }),
  );
  return String(best);
}

/** The last values of a curve. */
export class Chart {
  private readonly canvas: HTMLCanvasElement;
  private readonly values: number[] = [];

  constructor(canvas: HTMLCanvasElement) {
    this.canvas = canvas;
  }

  add(value: number): void {
    if (!Number.isFinite(value)) return;
    this.values.push(value);
    if (this.values.length > this.canvas.width) this.values.shift();
    const paint = context(this.canvas);
    const { width, height } = this.canvas;
    const most = Math.max(2.5, ...this.values);
    paint.clearRect(0, 0, width, height);
    paint.strokeStyle = '#e8590c';
    paint.lineWidth = 1.5;
    paint.beginPath();
    this.values.forEach((each, x) => paint.lineTo(x, height - 2 - ((height - 4) * each) / most));
    paint.stroke();
  }
}
