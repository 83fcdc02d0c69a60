/** @file The threat model of docs/security.md: every line names a test that there is. */
import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const root = new URL('../../../', import.meta.url);
const ATTACKERS = ['stranger', 'network', 'store writer', 'member', 'other user of the host'];

describe('the threat model', () => {
  const page = readFileSync(new URL('docs/security.md', root), 'utf8');
  const rows = page
    .slice(page.indexOf('<!-- threats -->'), page.indexOf('What nothing stops'))
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .map((line) => line.split('|').map((cell) => cell.trim()))
    .slice(2);

  it('has every attacker', () => {
    expect([...new Set(rows.map(([, attacker]) => attacker))]).toEqual(ATTACKERS);
    expect(rows.length).toBeGreaterThan(25);
  });

  it.each(rows.map(([, attacker, way, , test]) => [attacker, way, test]))('%s: %s', (_, __, test) => {
    const [, path, title] = /^`([^`]+)`: (.+)$/.exec(test as string) ?? [];
    const file = new URL(path as string, root);
    expect(existsSync(file), path).toBe(true);
    expect(readFileSync(file, 'utf8')).toContain(`'${title}'`);
  });
});
