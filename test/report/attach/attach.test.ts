/** Which files leave with the mail: their names, order and size. What is in them is in the tests of each format. */
import { describe, expect, test } from 'vitest';
import { type AttachmentKind, buildAttachments } from '../../../src/report/attach/attach.ts';
import type { FlowReport } from '../../../src/report/model.ts';
import { listTables } from '../../../src/report/report-tables.ts';
import { createEmptyReport, createHostileReport, createReport } from './fixture.ts';

const TABLES = [
  'key-numbers',
  'moved',
  'symbols',
  'unusual-symbols',
  'half-hours',
  'expirations',
  'moneyness',
  'biggest-trades',
  'biggest-sweeps',
  'left-out-trades',
  'exposure-changes',
  'gex-by-symbol',
  'zero-gamma',
  'gex-by-strike',
  'gex-by-expiration',
  'max-pain',
  'market-structure',
];

function build(kinds: readonly AttachmentKind[], limitBytes = 5_000_000, report: FlowReport = createReport()) {
  return buildAttachments(report, kinds, { limitBytes, timezone: 'America/New_York' });
}

describe('the attachments of a report', () => {
  test('are one file a table, named by dataset, date and table', async () => {
    const { attachments, leftOut } = await build(['csv']);
    expect(attachments.map(({ filename }) => filename)).toEqual(TABLES.map((name) => `trades-2026-11-19-${name}.csv`));
    expect(new Set(attachments.map(({ contentType }) => contentType))).toEqual(
      new Set(['text/csv; charset=utf-8; header=present']),
    );
    expect(leftOut).toEqual([]);
  });

  test('come in the order in which they were asked for, each kind once', async () => {
    const { attachments } = await build(['pdf', 'parquet', 'pdf']);
    expect(attachments.map(({ filename }) => filename)).toEqual([
      'trades-2026-11-19-report.pdf',
      ...TABLES.map((name) => `trades-2026-11-19-${name}.parquet`),
    ]);
    expect(attachments[0]?.contentType).toBe('application/pdf');
    expect(attachments[1]?.contentType).toBe('application/vnd.apache.parquet');
  });

  test('never exceed the limit together, and what did not fit is named', async () => {
    const all = await build(['pdf', 'csv']);
    const pdfBytes = all.attachments[0]?.bytes.byteLength ?? 0;
    const total = all.attachments.reduce((sum, { bytes }) => sum + bytes.byteLength, 0);
    const exact = await build(['pdf', 'csv'], total);
    expect(exact).toEqual(all);
    const tight = await build(['pdf', 'csv'], total - 1);
    expect(tight.leftOut).toEqual(['trades-2026-11-19-market-structure.csv']);
    const small = await build(['pdf', 'csv'], pdfBytes - 1);
    expect(small.leftOut).toEqual(['trades-2026-11-19-report.pdf']);
    expect(small.attachments).toHaveLength(TABLES.length);
    for (const { attachments } of [tight, small])
      expect(attachments.reduce((sum, { bytes }) => sum + bytes.byteLength, 0)).toBeLessThan(total);
  });

  test('are none where none was asked for, or nothing fits', async () => {
    expect(await build([])).toEqual({ attachments: [], leftOut: [] });
    const nothing = await build(['csv'], 0);
    expect(nothing.attachments).toEqual([]);
    expect(nothing.leftOut).toHaveLength(TABLES.length);
  });

  test('of a day without trades are the key numbers alone', async () => {
    const { attachments } = await build(['csv', 'parquet'], 5_000_000, createEmptyReport());
    expect(attachments.map(({ filename }) => filename)).toEqual([
      'trades-2026-11-19-key-numbers.csv',
      'trades-2026-11-19-key-numbers.parquet',
    ]);
  });

  test('have names that are safe to save, whatever the dataset is called', async () => {
    const report = createReport();
    const odd = { ...report, drop: { ...report.drop, dataset: '../a b"\r\nX' } };
    const { attachments } = await build(['csv'], 5_000_000, odd);
    for (const { filename } of attachments) expect(filename).toMatch(/^[\w.-]+$/);
  });

  test('of a full day, PDF included, are well below the usual limit of a mail', async () => {
    const { attachments } = await build(['pdf', 'csv', 'parquet'], 5_000_000, createHostileReport());
    const total = attachments.reduce((sum, { bytes }) => sum + bytes.byteLength, 0);
    expect(total).toBeLessThan(850_000);
  });
});

describe('the tables of a report', () => {
  test('list each symbol once, by its place, and mark those of the watchlist', () => {
    const table = listTables(createReport()).find(({ name }) => name === 'symbols');
    const column = (name: string) => table?.columns.findIndex((candidate) => candidate.name === name) ?? -1;
    expect(table?.rows.map((row) => [row[column('symbol')], row[column('place')], row[column('watched')]])).toEqual([
      ['SPY', 1, false],
      ['QQQ', 2, false],
      ['NVDA', 3, false],
      ['IWM', 12, true],
      ['TLT', 40, false],
    ]);
  });

  test('list each exposure once, and no sum of a symbol without a price', () => {
    const table = listTables(createReport()).find(({ name }) => name === 'gex-by-symbol');
    const column = (name: string) => table?.columns.findIndex((candidate) => candidate.name === name) ?? -1;
    expect(table?.rows.map((row) => [row[column('symbol')], row[column('spot')], row[column('net_gex')]])).toEqual([
      ['SPY', 601.37, -3e9],
      ['VIX', null, null],
    ]);
  });

  test('have as many cells in every row as there are columns, and begin with the date', () => {
    for (const table of listTables(createReport())) {
      expect(new Set(table.columns.map(({ name }) => name)).size).toBe(table.columns.length);
      for (const row of table.rows) {
        expect(row).toHaveLength(table.columns.length);
        expect(row[0]).toBe('2026-11-19');
      }
    }
  });
});
