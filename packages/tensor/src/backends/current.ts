/** @file The one backend of this process: the environment's choice, opened by the first operation that is worth a kernel, or that of `setBackend`. */
import type { Device } from '../device.ts';
import { evictAll } from '../device-memory.ts';
import { TensorError } from '../errors.ts';
import type { Backend, BackendName, Worth } from './backend.ts';
import { openBlas } from './blas.ts';
import { cpuBackend } from './cpu.ts';
import { openTensorflow } from './tensorflow.ts';
import { provideBackends } from './tfjs-engine.ts';
import { loadsAtOnce, loadTf, requireHere, tf } from './tfjs.ts';
import { hasTfjsNode } from './tfjs-node.ts';
import { getNumThreads } from './threads.ts';
import { loadWasm, openWasm, WASM_WORTH } from './wasm.ts';
import { openWebgpu, WEBGPU_WORTH } from './webgpu.ts';

interface Opener {
  readonly worth: Worth;
  /** Opens it without waiting, so that what computes does not depend on when. @throws TensorError with the reason where it cannot. */
  readonly open: (byName: boolean) => Backend;
}

const openers: Readonly<Record<BackendName, Opener>> = {
  cpu: { worth: cpuBackend.worth, open: () => cpuBackend },
  wasm: { worth: WASM_WORTH, open: openWasm },
  blas: { worth: WASM_WORTH, open: openBlas },
  // On a GPU less is worth a kernel, which is known once it is open.
  tensorflow: { worth: WASM_WORTH, open: openTensorflow },
  webgpu: { worth: WEBGPU_WORTH, open: openWebgpu },
};

type Choice = 'auto' | BackendName;

const asked = (globalThis.process?.env?.['BACKWIRE_BACKEND'] ?? 'auto') as Choice;
if (asked !== 'auto') checkName('BACKWIRE_BACKEND', asked);

let backend: Backend | undefined;

/** The device operations run on now; opened if it is not yet. */
export function currentBackend(): Backend {
  return (backend ??= asked === 'auto' ? openFirst() : openers[asked].open(true));
}

/** The device of the backend, if one is open: 'cpu' where its memory is the process's own. */
export function currentDevice(): Device {
  return backend?.device ?? 'cpu';
}

/** The device, when `units` of this work make a kernel pay there. Less than that opens none. */
export function backendWorth(work: keyof Worth, units: number): Backend | undefined {
  if (backend === undefined && units < leastWorth(work)) return undefined;
  const device = currentBackend();
  return units >= device.worth[work] ? device : undefined;
}

/** The backend's name: 'cpu', 'wasm', 'blas', 'tensorflow' or 'webgpu'. Opens it if nothing has yet. */
export function backendName(): string {
  return currentBackend().name;
}

/**
 * One line for people: which backend computes and with how many threads, and where the machine's BLAS was passed over, why and how to get
 * one. Opens the backend if nothing has yet.
 */
export function describeBackend(): string {
  const { name, detail, slow } = currentBackend();
  const threads = name === 'blas' || name === 'tensorflow' ? getNumThreads() : 1;
  const what = `${name}${detail === undefined ? '' : ` (${detail})`}, ${threads} thread${threads === 1 ? '' : 's'} a kernel`;
  const why = name === 'wasm' ? blasRefused : slow;
  return `computing with ${what}${why === undefined ? '' : `; products would be faster with a BLAS, but ${why}`}`;
}

/**
 * Chooses what computes: 'tensorflow' needs @tensorflow/tfjs-node or -gpu installed, 'blas' the package koffi and a BLAS library such as
 * OpenBLAS (BACKWIRE_BLAS names one that is not in its usual place; 'none' is none, also for the products of 'tensorflow'), 'webgpu' the
 * packages webgpu and @tensorflow/tfjs-backend-webgpu and an adapter, 'wasm' and 'cpu' are always there; 'auto' takes the one that the environment's BACKWIRE_BACKEND names, else the first that opens of
 * tensorflow, blas, wasm and cpu. Rejects with the reason, and leaves everything as it was, when the backend cannot be had. Existing tensors stay valid.
 * Without it the environment's BACKWIRE_BACKEND, else 'auto', is opened by the first operation that is large enough for a kernel. In
 * browsers and bundles, where nothing can be opened without waiting, there are no kernels, and no TensorFlow.js for `lift`, before this.
 * @param name 'auto', 'cpu', 'wasm', 'blas', 'tensorflow' or 'webgpu'
 * @throws Error with the reason, everything being left as it was, when the backend cannot be had.
 * @example
 * ```ts
 * await setBackend('wasm');
 * console.log(describeBackend()); // wasm…
 * ```
 */
export async function setBackend(name: Choice): Promise<void> {
  if (name !== 'auto') checkName('setBackend', name);
  const wanted = name === 'auto' ? asked : name;
  const next = wanted === 'auto' ? await loadFirst() : await load(wanted);
  if (next === backend) return;
  evictAll();
  backend = next;
}

function checkName(what: string, name: string): void {
  if (typeof name !== 'string' || !Object.hasOwn(openers, name)) {
    throw new TensorError(`${what} is '${String(name)}'; expected auto, ${Object.keys(openers).join(', ')}`);
  }
}

/**
 * What 'auto' tries, in this order: TensorFlow.js code of the program is native with the first, which may have a GPU; on a processor it has
 * the products of the second.
 */
const CANDIDATES = ['tensorflow', 'blas', 'wasm'] as const;

let least: Worth | undefined;

/** What is worth a kernel of some backend that may be chosen. */
function leastWorth(work: keyof Worth): number {
  least ??= leastOf(asked === 'auto' ? (hasTfjsNode() ? CANDIDATES : ['blas', 'wasm']) : [asked]);
  return least[work];
}

function leastOf(names: readonly BackendName[]): Worth {
  const least = (work: keyof Worth): number => Math.min(...names.map((name) => openers[name].worth[work]));
  return {
    elementwise: least('elementwise'),
    broadcast: least('broadcast'),
    reduce: least('reduce'),
    transpose: least('transpose'),
    gather: least('gather'),
    matmul: least('matmul'),
    update: least('update'),
  };
}

/** Why 'auto' has not taken the machine's BLAS. */
let blasRefused: string | undefined;

function openFirst(): Backend {
  for (const name of CANDIDATES) {
    try {
      return openers[name].open(false);
    } catch (error) {
      // Not installed or not startable here: the next one serves.
      if (name === 'blas') blasRefused = (error as Error).message;
    }
  }
  return cpuBackend;
}

async function loadFirst(): Promise<Backend> {
  const first = openFirst();
  return first === cpuBackend ? load('wasm').catch(() => load('cpu')) : first;
}

/** As `open`, where waiting is allowed. */
async function load(name: BackendName): Promise<Backend> {
  if (!loadsAtOnce()) {
    if (name === 'wasm') return loadWasm();
    // For the program's TensorFlow.js functions.
    if (name === 'cpu') await loadTf();
  }
  return openers[name].open(true);
}

if (requireHere() !== undefined) {
  provideBackends(() => {
    currentBackend();
    tf();
  });
}
