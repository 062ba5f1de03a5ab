/** docs/settings.md against the product: it has every setting that the code reads, and secrets are those that it masks. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { DEFAULTS } from '../../src/settings/setting-list.ts';
import { reportSettings } from '../../src/settings/settings.ts';
import { REPO } from '../support/flowdrop.ts';
import { listItems, readPage } from '../support/pages.ts';

const page = readPage('docs/settings.md');
const items = new Map(listItems(page).filter(([name]) => name.startsWith('FLOWDROP_')));

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
  it('has each setting that the code reads, and no other', () => {
    expect(read.size).toBeGreaterThan(15);
    expect([...items.keys()].sort()).toEqual([...read].sort());
  });

  it('says "secret" of exactly those that may come from a file', () => {
    for (const [name, text] of items) {
      const { unknown } = reportSettings({ [`${name}_FILE`]: '' }, REPO);
      expect(text.startsWith(' (secret): '), name).toBe(unknown.length === 0);
    }
  });

  it('has the defaults of the code', () => {
    for (const [name, value] of Object.entries(DEFAULTS))
      expect(items.get(name), name).toContain(`efault \`${value}\``);
  });

  it('lists the variables of the AWS SDK that the product reports', () => {
    const listed = [...new Set([...page.matchAll(/\bAWS_[A-Z0-9_]+/g)].map(([name]) => name))];
    const { set } = reportSettings(Object.fromEntries(listed.map((name) => [name, 'x'])), REPO);
    expect(set.map((name) => name.replace(/=.*/, '')).sort()).toEqual([...listed].sort());
  });
});
