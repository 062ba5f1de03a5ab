/**
 * docs/drops.md against the product: members of the manifest and of condition.json, types, numbers of the file's make-up. The snippets that read drops are run in `blocks.test.ts`.
 */
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import { hashManifest, manifestSchema } from '../../src/ledger/manifest.ts';
import { ROW_GROUP_ROWS } from '../../src/seal/write-parquet.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { makeFolder, REPO } from '../support/flowdrop.ts';
import { listCodes, readPage, readSection } from '../support/pages.ts';

const PAGE = 'docs/drops.md';
const names = (heading: string) =>
  [...readSection(PAGE, heading).matchAll(/^[-|] ((?:`[^`]+`(?:, )?)+)(?::| +\|)/gm)].flatMap(([, codes = '']) =>
    listCodes(codes),
  );
const readExample = (name: string) => readFileSync(join(REPO, 'docs/examples', name), 'utf8');

describe('the page of drops', () => {
  it('describes every member of the manifest, and no other', () => {
    expect(names('manifest.json').sort()).toEqual(Object.keys(manifestSchema.shape).sort());
  });

  it('shows a manifest that the code reads, with a hash of the right form', () => {
    const text = readExample('manifest.json');
    const manifest = manifestSchema.parse(JSON.parse(text));
    expect(Object.keys(JSON.parse(text)).every((name) => name in manifestSchema.shape)).toBe(true);
    expect(manifest.manifest_hash).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(hashManifest(manifest)).toMatch(/^sha256:[0-9a-f]{64}$/);
  });

  it('shows a condition.json that the code reads, and describes its members', async () => {
    const { path, remove } = await makeFolder();
    try {
      await mkdir(join(path, '_flowdrop', 'trades'), { recursive: true });
      await writeFile(join(path, '_flowdrop', 'trades', 'condition.json'), readExample('condition.json'));
      const { entries, fault } = await new Ledger(await openDirectoryStore(path), 'trades').conditions();
      expect(fault).toBeUndefined();
      expect(entries.size).toBe(2);
      const members = new Set([...entries.values()].flatMap((entry) => Object.keys(entry)));
      expect(names('condition.json').sort()).toEqual([...members].sort());
    } finally {
      await remove();
    }
  });

  it('explains every type that a column can have', () => {
    const types = new Set(['string', 'int32', 'int64', 'double', 'date', 'wall', 'instant']);
    expect(new Set(names('Types'))).toEqual(types);
    for (const { drop } of TRADE_COLUMNS) expect(types).toContain(drop);
  });

  it('has the size of a row group', () => {
    expect(readPage(PAGE)).toContain(`${ROW_GROUP_ROWS.toLocaleString('en')} rows`);
  });
});
