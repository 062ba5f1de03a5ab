/**
 * The CSV files, read back by two readers that are not ours: Python's csv and DuckDB. Which files there are, their names
 * and their size are in `attach.test.ts`.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { formatCsv } from '../../../src/report/attach/attach.ts';
import type { Cell } from '../../../src/report/report-table.ts';
import { listTables } from '../../../src/report/report-tables.ts';
import { queryDuckDb } from '../../support/drop.ts';
import { hasProgram, readWith } from '../../support/second-reader.ts';
import { createHostileReport, createReport, HOSTILE_TEXTS } from './fixture.ts';

const HAS_PYTHON = hasProgram('python3', 'python3');
/** The signs by which a spreadsheet knows a formula. */
const FORMULA = /^\s*[=+\-@＝＋－＠]/u;

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'flowdrop-csv-'));
});

afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

/** The fields of several files, in one call of the interpreter. */
async function readWithPython(files: readonly Uint8Array[]): Promise<readonly (readonly (readonly string[])[])[]> {
  const script = `
import sys, csv, json
print(json.dumps([list(csv.reader(open(path, encoding='utf-8-sig', newline=''), strict=True)) for path in sys.argv[1:]]))`;
  const paths = files.map((_, index) => join(folder, `${index}.csv`));
  await Promise.all(files.map((bytes, index) => writeFile(paths[index] ?? '', bytes)));
  return JSON.parse(readWith('python3', ['-c', script, ...paths]));
}

async function readWithDuckDb(bytes: Uint8Array): Promise<readonly Record<string, unknown>[]> {
  const path = join(folder, 'table.csv');
  await writeFile(path, bytes);
  // As a person would read it; only that texts of digits stay texts is said.
  return await queryDuckDb(`SELECT * FROM read_csv('${path}', all_varchar = true)`);
}

function format(...cells: readonly Cell[]): string {
  const columns = cells.map((_, index) => ({ name: `c${index}`, kind: 'text' as const, heading: null }));
  return Buffer.from(formatCsv({ columns, rows: [cells] })).toString('utf8');
}

describe('a csv attachment', () => {
  test('is RFC 4180: a header, CRLF behind every line, quotes doubled', () => {
    expect(format('a,b', 'say "no"', 'two\r\nlines', 'plain')).toBe(
      'c0,c1,c2,c3\r\n"a,b","say ""no""","two\r\nlines",plain\r\n',
    );
  });

  test('has numbers raw, and nothing where a number is not known', () => {
    expect(format(0.1 + 0.2, -310_000_000, 1e21, null, Number.NaN, true)).toBe(
      'c0,c1,c2,c3,c4,c5\r\n0.30000000000000004,-310000000,1e+21,,,true\r\n',
    );
  });

  test('begins with a byte order mark only where Excel would misread a character without it', () => {
    expect(format('SPY')).toMatch(/^c0/);
    expect(format('Ünï')).toMatch(/^\ufeffc0/);
  });

  test.each([
    ["=cmd()|' /C calc'!A0", "'=cmd()|' /C calc'!A0"],
    ['+1', "'+1"],
    ['-2+3', "'-2+3"],
    ['@SUM(A1)', "'@SUM(A1)"],
    ['\t=1', "'\t'=1"],
    ['\r=1', "'\r'=1"],
    ['  =1', "'  =1"],
    ['＝1', "'＝1"],
    ['a;=1', "a;'=1"],
    ['a,"=1', `a,"'=1`],
    ['SPY 2026-11-20 600 C', 'SPY 2026-11-20 600 C'],
    ['BRK.B', 'BRK.B'],
  ])('writes the text %j so that no spreadsheet runs it', (text, expected) => {
    const [, line = ''] = format(text)
      .replace('\ufeff', '')
      .split(/^c0\r\n/);
    const field = line.slice(0, -2);
    const value = field.startsWith('"') ? field.slice(1, -1).replaceAll('""', '"') : field;
    expect(value).toBe(expected);
  });

  // Python's parser is a second opinion: skipped on machines without Python; CI installs it.
  test.skipIf(!HAS_PYTHON)('of every table says the same to Python: no field moved, no number changed', async () => {
    const tables = [...listTables(createReport()), ...listTables(createHostileReport())];
    const read = await readWithPython(tables.map(formatCsv));
    tables.forEach((table, index) => {
      const [head, ...rows] = read[index] ?? [];
      expect(head).toEqual(table.columns.map(({ name }) => name));
      expect(rows).toHaveLength(table.rows.length);
      const values = rows.map((row, at) => row.map((field, column) => readField(field, table.rows[at]?.[column])));
      expect(values).toEqual(table.rows.map((row) => row.map(expectedField)));
    });
  });

  test('of hostile symbols says the same to DuckDB, and no field begins like a formula but numbers', async () => {
    const table = listTables(createHostileReport()).find(({ name }) => name === 'symbols');
    if (table === undefined) throw new Error('there is a table of symbols');
    const rows = await readWithDuckDb(formatCsv(table));
    expect(rows.map(({ symbol }) => withoutArmour(String(symbol ?? ''))).toSorted()).toEqual(
      [...HOSTILE_TEXTS, 'IWM', 'TLT'].map((text) => withoutArmour(text.replaceAll('\0', ' '))).toSorted(),
    );
    const values = rows.flatMap((row) => Object.values(row).map((value) => String(value ?? '')));
    expect(values.filter((value) => FORMULA.test(value) && !Number.isFinite(Number(value)))).toEqual([]);
    expect(rows.map(({ premium }) => Number(premium))).toEqual(
      table.rows.map((row) => row[table.columns.findIndex(({ name }) => name === 'premium')]),
    );
  });
});

/** A field as the cell it should be: a number where that is one. */
function readField(field: string, cell: Cell | undefined): string | number {
  return typeof cell === 'number' ? Number(field) : withoutArmour(field);
}

function expectedField(cell: Cell): string | number {
  return typeof cell === 'number' ? cell : withoutArmour(String(cell ?? '').replaceAll('\0', ' '));
}

/** Apostrophes are what was put in front of formulas. */
function withoutArmour(text: string): string {
  return text.replaceAll("'", '');
}
