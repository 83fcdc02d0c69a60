/** @file What the checks of an acceptance suite came to: a line each, and the sum. */
export class Report {
  passed = 0;
  failed = 0;
  private readonly verbose: boolean;
  private last = performance.now();

  constructor(verbose: boolean) {
    this.verbose = verbose;
  }

  /** One check; `failure` is what failed, in a line, and `details` are shown where they are wanted. */
  check(name: string, failure: string | undefined, details?: string): void {
    const now = performance.now();
    const took = `(${((now - this.last) / 1_000).toFixed(1)} s)`;
    this.last = now;
    if (failure === undefined) {
      this.passed++;
      console.log(`ok      ${name} ${took}`);
      return;
    }
    this.failed++;
    console.log(`FAILED  ${name} ${took}: ${failure}`);
    if (this.verbose && details !== undefined) console.log(details.replace(/^/gm, '    '));
  }

  /** As `check`, of what `run` comes to. */
  async run(name: string, run: () => Promise<void>): Promise<void> {
    try {
      await run();
      this.check(name, undefined);
    } catch (error) {
      const shown = error instanceof Error ? error : new Error(String(error));
      this.check(name, shown.message.split('\n')[0] ?? '', shown.stack);
    }
  }

  sum(): string {
    return `${this.passed} passed, ${this.failed} failed`;
  }
}
