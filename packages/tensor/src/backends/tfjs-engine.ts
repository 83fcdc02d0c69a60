/** @file A program's own TensorFlow.js code finds a backend, whether it imported one or not. */
import type { TfModule } from './tfjs.ts';

type Engine = ReturnType<TfModule['engine']>;

/** Where every copy of TensorFlow.js in a process keeps the one engine. */
const KEY = '_tfengine';

/**
 * Where a program makes a TensorFlow.js tensor and no backend is registered, `provide` is called to register them: with this package
 * imported, TensorFlow.js code needs no import of a backend. Waiting for the engine instead of loading it keeps TensorFlow.js out of
 * programs that never use it.
 */
export function provideBackends(provide: () => void): void {
  const home = globalThis as { [KEY]?: Engine };
  if (home[KEY] !== undefined) {
    fill(home[KEY], provide);
    return;
  }
  Object.defineProperty(home, KEY, {
    configurable: true,
    get: () => undefined,
    set(engine: Engine) {
      Object.defineProperty(home, KEY, { configurable: true, enumerable: true, writable: true, value: engine });
      fill(engine, provide);
    },
  });
}

/** The engine asks for its backends in the order of their priority, when it has to choose one. */
function fill(engine: Engine, provide: () => void): void {
  const inner = engine as unknown as { getSortedBackends?: () => string[]; registryFactory: object };
  const sorted = inner.getSortedBackends;
  if (sorted === undefined) return;
  inner.getSortedBackends = () => {
    if (Object.keys(inner.registryFactory).length === 0) provide();
    return sorted.call(engine);
  };
}
