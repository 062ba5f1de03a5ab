/**
 * Fixed days against stored mails, so that a change of the templates or texts is seen as a whole. After a wanted change:
 * `UPDATE_GOLDEN=1 npx vitest run test/report/golden.test.ts`, then read the difference.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { buildSessionChart, buildStrikeChart, buildSymbolChart } from '../../src/report/draw/chart.ts';
import { LIGHT } from '../../src/report/draw/palette.ts';
import { REPO } from '../support/flowdrop.ts';
import { DIGEST, OPTIONS, pickDay, renderDigest, renderFlowReport } from './days.ts';

const GOLDEN = join(REPO, 'test', 'golden');
const FIXED = ['quiet', 'normal', 'extreme', 'single-trade', 'no-trades', 'correction'] as const;

async function expectGolden(name: string, text: string): Promise<void> {
  const file = join(GOLDEN, name);
  if (process.env['UPDATE_GOLDEN'] === '1') await writeFile(file, text);
  expect(text).toBe(await readFile(file, 'utf8'));
}

describe('the mail of a fixed day', () => {
  it.each(FIXED)('%s is the stored one', async (name) => {
    const { report, options } = pickDay(name);
    const { subject, html, text } = await renderFlowReport(report, options);
    await expectGolden(`${name}.txt`, `Subject: ${subject}\n\n${text}`);
    await expectGolden(`${name}.html`, html);
  });

  it('of several datasets is the stored digest', async () => {
    const { subject, html, text } = await renderDigest(DIGEST, OPTIONS);
    await expectGolden('digest.txt', `Subject: ${subject}\n\n${text}`);
    await expectGolden('digest.html', html);
  });
});

describe('the charts of a fixed day', () => {
  // Compared as specifications: pixels depend on the drawing library's version, and `render-chart.test.ts` draws them.
  it.each(['normal', 'extreme', 'single-trade'])('%s have the stored specifications', async (name) => {
    const { halfHours, topSymbols, exposure } = pickDay(name).report;
    const specs = {
      session: buildSessionChart(halfHours, LIGHT),
      symbols: buildSymbolChart(topSymbols, LIGHT),
      strikes: exposure.lead === null ? null : buildStrikeChart(exposure.lead, LIGHT),
    };
    // Rounded, because the last digits of a sine differ between processors.
    const round = (_: string, value: unknown) => (typeof value === 'number' ? Number(value.toPrecision(9)) : value);
    await expectGolden(`${name}.charts.json`, `${JSON.stringify(specs, round, 1)}\n`);
  });
});
