/** @file The first lines of a loader's thread: it loads the data set's module, which brings the package with it that does the rest. */
import { IN_LOADER_THREAD, packError, SERVE, type LoaderThreadData, type Report, type Serve, type ThreadPort } from './worker-messages.ts'; // prettier-ignore

// Where the program was started with --input-type=module, this text is a module, too, and has no `require`.
const threads = process.getBuiltinModule('node:worker_threads') as {
  readonly parentPort: unknown;
  readonly workerData: unknown;
};
const port = threads.parentPort as ThreadPort;
const start = threads.workerData as LoaderThreadData;

Object.assign(globalThis, { [IN_LOADER_THREAD]: true });
begin().catch((error: unknown) => {
  const report: Report = { op: 'failed', task: undefined, index: undefined, error: packError(error) };
  port.postMessage(report);
});

async function begin(): Promise<void> {
  const { typescript, entry } = start;
  if (typescript !== undefined) ((await import(typescript)) as { register(): void }).register();
  const exported = (await importModule(entry.url))[entry.name] as { [SERVE]?: Serve } | undefined;
  const serve = exported?.[SERVE];
  if (serve === undefined)
    throw new TypeError(`${entry.url} exports no '${entry.name}' that data.workerDataset has made`);
  await serve(port, start, importModule);
}

function importModule(url: string): Promise<Readonly<Record<string, unknown>>> {
  return import(url) as Promise<Readonly<Record<string, unknown>>>;
}
