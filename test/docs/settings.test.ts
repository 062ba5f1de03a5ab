/** docs/settings.md against the product: every setting that the code reads has a row, and secrets are those that it masks. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { DEFAULTS } from '../../src/settings/setting-list.ts';
import { reportSettings } from '../../src/settings/settings.ts';
import { REPO } from '../support/flowdrop.ts';
import { listCodes, listRows, readPage } from '../support/pages.ts';

const page = readPage('docs/settings.md');
const rows = new Map(listRows(page).map((row) => [listCodes(row[0] ?? '')[0] ?? '', row]));

/** Names that `openers.ts` and the settings read, without the `_FILE` form. */
const read = new Set(
  ['openers.ts', ...readdirSync(join(REPO, 'src', 'settings')).map((name) => `settings/${name}`)]
    .flatMap((name) => [...readFileSync(join(REPO, 'src', name), 'utf8').matchAll(/FLOWDROP_[A-Z0-9_]+[A-Z0-9]/g)])
    .map(([name]) => name.replace(/_FILE$/, ''))
    // A setting that ends so by its own name.
    .map((name) => (name === 'FLOWDROP_CALENDAR' ? 'FLOWDROP_CALENDAR_FILE' : name))
    // A job's own name follows.
    .map((name) => (name === 'FLOWDROP_KEY' ? 'FLOWDROP_KEY_NAME' : name)),
);

describe('the page of settings', () => {
  it('has a row for each setting that the code reads, and for no other', () => {
    expect(read.size).toBeGreaterThan(15);
    expect([...rows.keys()].sort()).toEqual([...read].sort());
  });

  it('says "secret" of exactly those that may come from a file', () => {
    for (const [name, row] of rows) {
      const { unknown } = reportSettings({ [`${name}_FILE`]: '' }, REPO);
      expect(row[4], name).toBe(unknown.length === 0 ? 'yes' : 'no');
    }
  });

  it('has the defaults of the code', () => {
    for (const [name, value] of Object.entries(DEFAULTS)) expect(rows.get(name)?.[3], name).toBe(`\`${value}\``);
  });

  it('fills every cell', () => {
    for (const [name, row] of rows) {
      expect(row, name).toHaveLength(7);
      for (const cell of row) expect(cell, name).not.toBe('');
    }
  });

  it('lists the variables of the AWS SDK that the product reports', () => {
    const listed = [...page.matchAll(/^\| (AWS_[A-Z0-9_]+) +\|/gm)].map(([, name = '']) => name);
    const { set } = reportSettings(Object.fromEntries(listed.map((name) => [name, 'x'])), REPO);
    expect(set.map((name) => name.replace(/=.*/, '')).sort()).toEqual([...listed].sort());
  });
});
