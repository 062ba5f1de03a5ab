/**
 * The PDF, read by Poppler: its words, its pages, its structure for those who have it read aloud. How it looks is for a
 * person to see; that nothing lies outside the paper or over something else is checked here.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { formatPdf } from '../../../src/report/attach/pdf.ts';
import type { FlowReport } from '../../../src/report/model.ts';
import { addSampleWeek, buildSampleDay } from '../../../src/report/sample-day.ts';
import { hasProgram, readWith } from '../../support/second-reader.ts';
import { DAYS } from '../days.ts';
import { createEmptyReport, createHostileReport, createLongReport, createReport } from './fixture.ts';

const HAS_POPPLER = hasProgram('pdftotext', 'poppler-utils');

test('the same report gives the same PDF, byte for byte', async () => {
  const [first, second] = [await formatPdf(createReport(), 'UTC'), await formatPdf(createReport(), 'UTC')];
  expect(Buffer.compare(first, second)).toBe(0);
  expect(Buffer.from(first.subarray(0, 8)).toString()).toBe('%PDF-1.7');
});

// Poppler is a second opinion: skipped on machines without it; CI installs it.
describe.skipIf(!HAS_POPPLER)('a PDF of the report', () => {
  let folder: string;
  let full: string;
  let hostile: string;
  let empty: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'flowdrop-pdf-'));
    full = await write(createReport(), 'full.pdf');
    hostile = await write(createHostileReport(), 'hostile.pdf');
    empty = await write(createEmptyReport(), 'empty.pdf');
  });

  afterAll(async () => {
    await rm(folder, { recursive: true, force: true });
  });

  async function write(report: FlowReport, name: string, timezone = 'America/New_York'): Promise<string> {
    const path = join(folder, name);
    await writeFile(path, await formatPdf(report, timezone));
    return path;
  }

  const readText = (path: string) => readWith('pdftotext', ['-layout', path, '-']);

  test('says the stamp, the numbers, the tables and where they come from', () => {
    const text = readText(full);
    for (const expected of [
      'Options flow',
      'Thursday, November 19, 2026',
      'Complete',
      '1,234,567 rows, revision 2; 1,240,000 trades counted, 09:30:02 to 16:14:59 New York',
      'verified Nov 19, 17:31 ET',
      'Busiest half hour: 09:30',
      'Call wall at 610, put wall at 590 (partial: traded contracts only)',
      'gamma x open interest x 100 x spot² x 0.01',
      's3://quant-drops/options/trades/session=2026-11-19/trades.parquet',
      'ab'.repeat(32),
      'attached to this PDF: trades-2026-11-19-rebuild.sql',
    ])
      expect(text).toContain(expected);
    expect(text).toMatch(/Premium +\$1\.24B +\$1\.10B +\+\$136M +\$1\.17B/);
    expect(text).toMatch(/0DTE share of premium +38\.2% +38\.2% +0\.0 pt +38\.2%/);
    expect(text).toMatch(
      /15:59:59 +SPY Nov 20, 2026 600 C +5,000 +12\.35 +\$6\.17M +Ask +Bullish +– +12,000 +– +1 +Sweep/,
    );
    expect(text).toMatch(
      /SPY +partial: traded contracts only +601\.37 +−\$3\.00B +\$12\.0B +−\$15\.0B +\$15\.0B +598\.25 +610 +590 +600/,
    );
  });

  test('begins with the first screen of the mail: what it is complete of, tiles, sentences', () => {
    const [first = ''] = readText(full).split('\f');
    for (const expected of [
      /Complete\n/,
      /Total premium +Net sentiment +Net GEX SPY +Last price 601\.37\n/,
      /\$1\.24B +bullish by \$112M +−\$3\.00B +0\.5% above\n/,
      /\+12% vs Nov 18 +Bullish \$384M, 31% +−\$1\.21M vs Nov 18 +price −2\.0% vs Nov 18\n/,
      /\+\$39\.9M after expiration/,
      /SPY alone carried 81% of premium/,
      /Earnings within ten days: TSLA Nov 25, NVDA Nov 29\./,
    ])
      expect(first).toMatch(expected);
    const [degraded = ''] = readText(empty).split('\f');
    expect(degraded).toContain('Degraded. This day is not verified as complete.');
    expect(degraded).toMatch(/Total premium\n\s*\$0\.00/);
  });

  test.each([
    ...DAYS.map(({ name, report }) => [name, report] as const),
    ['sample', buildSampleDay('trades')] as const,
    ['week', addSampleWeek(buildSampleDay('trades'))] as const,
    ['long', createLongReport()] as const,
    ['hostile', createHostileReport()] as const,
  ])('of the %s day has at most six pages, and no picture: charts are lines and words', async (name, report) => {
    const path = join(folder, 'day.pdf');
    await writeFile(path, await formatPdf(report, 'UTC', { note: name === 'long' ? 'A note. '.repeat(500) : '' }));
    const pages = Number(/Pages: +(\d+)/.exec(readWith('pdfinfo', [path]))?.[1]);
    expect(pages).toBeLessThanOrEqual(6);
    expect(readWith('pdfimages', ['-list', path]).trim().split('\n')).toHaveLength(2);
    expect(findMisplaced(path)).toEqual([]);
    const text = readText(path);
    if (name !== 'no-trades') expect(text).toMatch(/Bullish +Neutral +Bearish/);
    if (name === 'long') expect(text).toMatch(/Too long to print, but in the full report: .*GEX by strike/);
  });

  test('has the queries attached as one file, byte for byte as the full report prints them', async () => {
    const { rebuildQueries } = createReport();
    readWith('pdfdetach', ['-saveall', '-o', folder, full]);
    const printed = rebuildQueries.map(({ table, sql }) => `-- ${table}\n${sql}\n`).join('\n');
    expect(await readFile(join(folder, 'trades-2026-11-19-rebuild.sql'), 'utf8')).toBe(printed);
    expect(readText(full)).not.toContain('SELECT');
    expect(readWith('pdfdetach', ['-list', empty])).toMatch(/^0 embedded files/);
  });

  test('tells instants in the zone of its reader, and trade times in the exchange’s', async () => {
    const report = createReport();
    const extended = { ...report, drop: { ...report.drop, through: '16:15' } };
    const text = readText(await write(extended, 'tokyo.pdf', 'Asia/Tokyo'));
    expect(text).toContain('Complete to 16:15');
    expect(text).toContain('verified Nov 20, 07:31 GMT+9');
    expect(text).toContain('09:30:02 to 16:14:59 New York');
  });

  test('has its title, language, date and author for those who file it', () => {
    const info = readWith('pdfinfo', ['-isodates', full]);
    expect(info).toMatch(/Title: +Options flow 2026-11-19/);
    expect(info).toMatch(/Author: +flowdrop/);
    expect(info).toMatch(/CreationDate: +2026-11-19T22:45:10/);
    expect(info).toMatch(/Tagged: +yes/);
    expect(info).toMatch(/Page size: +612 x 792 pts \(letter\)/);
  });

  test('can be read aloud: headings, tables with headers, pictures with what they show', async () => {
    // Poppler complains about any attribute of the structure that the standard does not know, and that fails the test.
    const structure = readWith('pdfinfo', ['-struct-text', full]);
    expect(structure).toMatch(/^Document\n {2}H1 \(block\)\n {4}"Options flow"/);
    expect(structure.match(/^ {2}H2/gm)).toHaveLength(22);
    expect(structure.match(/^ {2}Table/gm)).toHaveLength(17);
    expect(structure.match(/^ {2}Figure/gm)).toHaveLength(3);
    expect(structure).toMatch(/\/Scope \/Column/);
    expect(structure).toMatch(/\/Scope \/Row/);
    const bytes = await readFile(full, 'latin1');
    expect(bytes).toContain('/Alt (Busiest half hour: 09:30');
    expect(bytes).toContain('/Lang (en-US)');
  });

  test('counts its pages at the foot of each, and repeats the header of a table that goes on', () => {
    const pages = Number(/Pages: +(\d+)/.exec(readWith('pdfinfo', [full]))?.[1]);
    const texts = readText(full).split('\f').slice(0, -1);
    expect(texts).toHaveLength(pages);
    expect(pages).toBeGreaterThan(2);
    texts.forEach((text, index) => {
      expect(text.trimEnd()).toMatch(new RegExp(`revision 2 +Page ${index + 1} of ${pages}$`));
    });
    const strikes = texts.filter((text) => /SPY +6\d\d/.test(text) && /Symbol +Strike +Call GEX/.test(text));
    expect(strikes.length).toBeGreaterThan(0);
    expect(readText(full).match(/Symbol +Strike +Call GEX/g)?.length).toBe(2);
  });

  /** Words that are outside the paper's margins, or over another word. */
  function findMisplaced(path: string): readonly Box[] {
    return readWith('pdftotext', ['-bbox', path, '-'])
      .split('<page ')
      .slice(1)
      .flatMap((paper) => {
        const boxes = [...paper.matchAll(/xMin="([-\d.]+)" yMin="([-\d.]+)" xMax="([-\d.]+)" yMax="([-\d.]+)"/g)].map(
          (match) => match.slice(1).map(Number) as [number, number, number, number],
        );
        expect(boxes.length).toBeGreaterThan(10);
        const outside = boxes.filter(([x0, y0, x1, y1]) => x0 < 36 || y0 < 30 || x1 > 576 || y1 > 775);
        return [
          ...outside,
          ...boxes.filter((box, index) => boxes.slice(index + 1).some((other) => overlap(box, other))),
        ];
      });
  }

  test('cuts no number: what is too wide for the paper is taken from texts', () => {
    const text = readText(hostile);
    expect(text).toMatch(/=cmd\(\)\|' \/C calc'!A0 +1,000,000 +\$1\.00B +\$620M +\$380M +\$69\.4M +−\$31\.9M/);
    expect(text).not.toMatch(/\$[\d.]*…|\d,\d*…/);
  });

  test('of a degraded day without trades says so, and draws nothing', () => {
    expect(readText(empty)).toContain('0 rows, revision 2; no trades');
    expect(readWith('pdfimages', ['-list', empty]).trim().split('\n')).toHaveLength(2);
  });

  test('has its fonts in it, as the parts that it uses', () => {
    const fonts = readWith('pdffonts', [full]).trim().split('\n').slice(2);
    expect(fonts).toHaveLength(2);
    for (const font of fonts) expect(font).toMatch(/DejaVuSans.* yes yes yes/);
  });
});

type Box = readonly [x0: number, y0: number, x1: number, y1: number];

/** Lines touch by a fraction of a point where ascenders meet descenders. */
function overlap(a: Box, b: Box): boolean {
  const width = Math.min(a[2], b[2]) - Math.max(a[0], b[0]);
  const height = Math.min(a[3], b[3]) - Math.max(a[1], b[1]);
  return width > 0.5 && height > 3;
}
