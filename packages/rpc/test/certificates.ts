/** @file Certificates for tests, made by the openssl program. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Security } from '../src/index.ts';

/** Whether the program is there; tests that need it are skipped without. */
export const hasOpenssl = ((): boolean => {
  try {
    execFileSync('openssl', ['version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
})();

export interface CertificateOptions {
  /** The common name. @default the name of the files */
  readonly subject?: string;
  /**
   * The value of subjectAltName as openssl.cnf has it, sections that it refers to behind it; undefined = no such extension.
   * @default DNS: and the name of the files
   */
  readonly alternative?: string | undefined;
  /** @default 'ca' */
  readonly authority?: string;
  /** The value of extendedKeyUsage: 'clientAuth'. @default no such extension: good for everything */
  readonly purpose?: string;
}

/** Certificates and keys in a directory of their own. */
export class Certificates {
  readonly directory = mkdtempSync(join(tmpdir(), 'backwire-test-'));

  constructor(authorities: readonly string[] = ['ca']) {
    for (const name of authorities)
      this.run(
        'req',
        '-x509',
        ...KEY,
        '-keyout',
        `${name}.key`,
        '-out',
        `${name}.pem`,
        '-days',
        '2',
        '-subj',
        `/CN=${name}`,
      );
  }

  make(name: string, options: CertificateOptions = {}): this {
    const { subject = name, authority = 'ca', purpose } = options;
    const alternative = 'alternative' in options ? options.alternative : `DNS:${name}`;
    const extensions = alternative === undefined ? 'basicConstraints=CA:FALSE' : `subjectAltName=${alternative}`;
    const usage = purpose === undefined ? '' : `extendedKeyUsage=${purpose}\n`;
    writeFileSync(join(this.directory, `${name}.ext`), `${usage}${extensions}\n`);
    this.run('req', ...KEY, '-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', `/CN=${subject}`);
    const by = ['-CA', `${authority}.pem`, '-CAkey', `${authority}.key`, '-CAcreateserial', '-days', '2'];
    this.run('x509', '-req', '-in', `${name}.csr`, '-out', `${name}.pem`, ...by, '-extfile', `${name}.ext`);
    return this;
  }

  /** A file: 'w1.pem'. */
  path(file: string): string {
    return join(this.directory, file);
  }

  /** As the holder of a certificate sets it. */
  security(name: string, authority = 'ca'): Security & { mode: 'mtls' } {
    return {
      mode: 'mtls',
      key: readFileSync(this.path(`${name}.key`), 'utf8'),
      cert: this.path(`${name}.pem`),
      ca: this.path(`${authority}.pem`),
    };
  }

  remove(): void {
    rmSync(this.directory, { recursive: true, force: true });
  }

  private run(...args: string[]): void {
    execFileSync('openssl', args, { cwd: this.directory, stdio: 'ignore' });
  }
}

const KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
