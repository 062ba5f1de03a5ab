/**
 * The mail that a report becomes: subject, HTML, text and pictures, on ordinary and on extreme days, and from data that
 * tries to be markup. Its sentences, as a whole: `golden.test.ts`; the numbers themselves: `flow.test.ts` and `naive.slow.test.ts`; how it looks: `browser.slow.test.ts`.
 */
import { copyFile, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { SHOWN_WIDTH } from '../../src/report/draw/chart.ts';
import type { RenderedReport } from '../../src/report/render.ts';
import { DAYS, HOSTILE, OPTIONS, pickDay, renderDigest, renderFlowReport } from './days.ts';
import { TEMPLATES } from './drop-file.ts';
import { createReport, createSymbolExposure, createSymbolFlow, createUnusual } from './model-fixture.ts';

/** Gmail clips a message beyond about 102 kB; a mail that is forwarded grows. */
const MAX_HTML_BYTES = 60_000;
/** Pictures in base64 and all headers included. */
const MAX_MAIL_BYTES = 1_000_000;

async function renderDay(name: string): Promise<RenderedReport> {
  const { report, options } = pickDay(name);
  return await renderFlowReport(report, options);
}

describe('a mail whose comparison has gaps', () => {
  it('names missing and degraded sessions on its first screen, and leaves out a median of two sessions', async () => {
    const { report, options } = pickDay('normal');
    const { comparison } = report;
    const gaps = {
      missingDates: ['2026-11-17'],
      degradedDates: ['2026-11-16'],
      dates: ['2026-11-18', '2026-11-16'],
      changes: Object.fromEntries(
        Object.entries(comparison.changes).map(([key, change]) => [key, { ...change, median: null, place: null }]),
      ) as typeof comparison.changes, // The same keys.
    };
    const { html, text } = await renderFlowReport({ ...report, comparison: { ...comparison, ...gaps } }, options);
    for (const part of [html, text]) {
      const first = part.slice(0, part.search(/Watchlist|WATCHLIST/));
      expect(first).toContain('Missing in the comparison: Nov 17.');
      expect(first).toContain('Degraded in the comparison: Nov 16.');
      expect(part).not.toMatch(/session median|>Median</);
    }
    const header = text.split('\n').find((line) => line.includes('Change')) ?? '';
    expect(header.trim().split(/ {2,}/)).toEqual(['Nov 19', 'Nov 18', 'Change']);
  });
});

describe('the mail of an ordinary day', () => {
  let mail: RenderedReport;
  beforeAll(async () => {
    mail = await renderDay('normal');
  });

  it.each([
    [{ url: 'https://flow.example.com/reports/a', expiresAt: null }, 'href="https://flow.example.com/reports/a"', ''],
    [
      { url: 'https://s3.example.com/report.html', expiresAt: '2026-11-26T22:32:00.000Z' },
      'href="https://s3.example.com/report.html"',
      'works until Nov 26, 17:32 ET',
    ],
    [{ file: 'nightly-2026-11-19-full-report.html' }, 'nightly-2026-11-19-full-report.html', ''],
  ])('names the way to the full report: %j', async (full, inHtml, inBoth) => {
    const { html, text } = await renderFlowReport(createReport(), { ...OPTIONS, full });
    expect(html).toContain(inHtml);
    expect(text).toContain('file' in full ? `FULL REPORT: attached, ${full.file}` : `FULL REPORT: ${full.url}`);
    for (const part of [html, text]) expect(part).toContain(inBoth);
  });

  it('has no link to a full report that a browser should not open', async () => {
    const full = { url: 'javascript:alert(1)', expiresAt: null };
    const { html, text } = await renderFlowReport(createReport(), { ...OPTIONS, full });
    expect(html + text).not.toMatch(/javascript:|Full report|FULL REPORT/);
  });

  it('shows every picture that it carries, with a text that states what it shows', () => {
    expect(mail.images.map((image) => image.cid)).toEqual(['session', 'session-dark', 'strikes', 'strikes-dark']);
    for (const { cid } of mail.images) expect(mail.html).toContain(`src="cid:${cid}"`);
    expect(mail.html).toContain('alt="Premium per half hour, stacked by sentiment. Busiest half hour: 09:30');
    expect(mail.html).toMatch(
      /alt="Gamma exposure of SPY by strike[^"]*Call wall at 625, put wall at 575 \(partial: traded contracts only\); spot 601\.50/,
    );
  });

  it('has pictures of twice the width shown', () => {
    for (const { png } of mail.images) {
      expect(Buffer.from(png.subarray(0, 8)).toString('hex')).toBe('89504e470d0a1a0a');
      expect(Buffer.from(png.subarray(16, 20)).readUInt32BE()).toBe(2 * SHOWN_WIDTH);
    }
  });

  it('has a caption and scoped headers on every table of data', () => {
    const tables = mail.html.split('<table').filter((table) => table.includes('<th'));
    expect(tables).toHaveLength(3);
    for (const table of tables) {
      expect(table).toContain('<caption');
      for (const header of table.match(/<th\b[^>]*>/g) ?? []) expect(header).toMatch(/scope="(col|row)"/);
    }
  });

  it('loads nothing from anywhere', () => {
    expect(mail.html).not.toMatch(/@import|<link\b|url\(/);
    const sources = [...mail.html.matchAll(/src="([^"]*)"/g)].map((match) => match[1]);
    expect(sources.filter((source) => !source?.startsWith('cid:'))).toEqual([]);
  });

  it('tells each reader instants in the zone of that reader', async () => {
    const berlin = await renderDay('first-day');
    expect(berlin.html).toContain('Nov 19, 23:31 GMT+1');
    expect(berlin.text).toContain('09:30:00-16:14:57 ET');
  });

  it('prints a link only when a browser should open it', async () => {
    const link = { url: 'javascript:alert(1)', expiresAt: OPTIONS.link?.expiresAt ?? '' };
    const bad = await renderFlowReport(pickDay('normal').report, { ...OPTIONS, link });
    expect(bad.html + bad.text).not.toContain('javascript:');
    expect(mail.html).toContain(`<a href="${OPTIONS.link?.url.replaceAll('&', '&amp;')}"`);
  });
});

describe('the mail of every fixed day', () => {
  it.each(DAYS.map(({ name }) => name))(
    '%s fits the limits of mail programs and shows no missing value',
    async (name) => {
      const mail = await renderDay(name);
      expect(Buffer.byteLength(mail.html)).toBeLessThan(MAX_HTML_BYTES);
      const pictures = mail.images.reduce((sum, { png }) => sum + png.byteLength * 1.37, 0);
      expect(Buffer.byteLength(mail.html) * 1.1 + Buffer.byteLength(mail.text) + pictures).toBeLessThan(MAX_MAIL_BYTES);
      expect(mail.html + mail.text).not.toMatch(/NaN|Infinity|undefined|\bnull\b|\[object/);
      expect(mail.subject).toMatch(/^[\x20-\x7e]{10,120}$/);
    },
  );

  it('stays below 60 kB with the longest watchlist and every table full', async () => {
    const symbols = Array.from({ length: 25 }, (_, index) => `LONGSYM${index}`);
    const flows = symbols.map((symbol, index) => createSymbolFlow(symbol, index + 1));
    const focus = symbols.map((symbol) => createSymbolExposure(symbol));
    const full = createReport();
    const report = createReport({
      exposure: { ...full.exposure, focus, lead: focus[0] ?? null },
      watchlist: symbols.map((symbol, index) => ({
        symbol,
        flow: flows[index] ?? null,
        exposure: focus[index] ?? null,
        unusual: createUnusual(symbol, 3, 1e8),
      })),
      watchlistLeftOut: 35,
    });
    const mail = await renderFlowReport(report, OPTIONS);
    expect(Buffer.byteLength(mail.html)).toBeLessThan(MAX_HTML_BYTES);
    expect(mail.html).toContain('35 more on the list are not shown');
  });
});

describe('a mail from data that tries to be markup', () => {
  let mail: RenderedReport;
  beforeAll(async () => {
    mail = await renderDay('hostile');
  });

  it('shows the symbol as text', () => {
    expect(mail.html).toContain('&lt;script&gt;alert(1)&lt;/script&gt;');
    expect(mail.html).not.toMatch(/<script/i);
    expect(mail.text).toContain(HOSTILE[0].slice(0, 11));
  });

  it('has no element or attribute that came with the data', () => {
    expect(mail.html).not.toMatch(/<img[^>]+onerror/i);
    expect(mail.html).not.toMatch(/<mj-raw/i);
    expect(mail.html.match(/<img /g)).toHaveLength(4);
  });

  it('has a subject of printable ASCII on one line, without any text of a record', () => {
    expect(mail.subject).toMatch(/^[\x20-\x7e]+$/);
    expect(mail.subject).not.toContain('script');
  });

  it('has no line of the text part that begins with what the data brought', () => {
    expect(mail.text).toContain('Bcc:');
    expect(mail.text).not.toMatch(/^\s*Bcc:/mu);
  });

  it('has no mark that reverses the reading direction', () => {
    expect(mail.html + mail.text).not.toMatch(/[\u202A-\u202E\u2066-\u2069]/);
  });
});

describe('the mail of an unusual day', () => {
  it('a day with nothing before it shows no columns of the past', async () => {
    const mail = await renderDay('first-day');
    expect(mail.html + mail.text).not.toContain('5-session median');
  });

  it('a degraded day says it in the subject and above the numbers', async () => {
    const mail = await renderDay('degraded');
    expect(mail.subject).toContain('2026-11-19 [degraded]:');
    expect(mail.html.indexOf('This day is not verified as complete.')).toBeLessThan(mail.html.indexOf('Total premium'));
    expect(mail.text).toMatch(/^DEGRADED: .* sealed .*, revision 2$/m);
  });

  it('a late report is marked late', async () => {
    const mail = await renderDay('late');
    expect(mail.subject).toContain('[late]');
    for (const part of [mail.html, mail.text]) expect(part).toContain('SENT LATE');
  });
});

describe('a digest', () => {
  it('of nothing but pending datasets says so', async () => {
    const none = await renderDigest([{ title: 'trades', pending: '2026-11-19' }], { ...OPTIONS, late: true });
    expect(none.subject).toBe('Flow digest 2026-11-19 [late]: 1 dataset, 1 pending');
    expect(none.text).toContain('PENDING: Thursday, November 19, 2026');
  });
});

describe('templates', () => {
  it('a missing template is named in the error', async () => {
    const options = { ...OPTIONS, templatesDir: join(TEMPLATES, 'nowhere') };
    await expect(renderFlowReport(createReport(), options)).rejects.toMatchObject({
      code: 'TEMPLATE_INVALID',
      message: expect.stringContaining('flow.mjml'),
    });
  });

  it('a chart that a designer takes out is not carried', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'flowdrop-templates-'));
    try {
      for (const file of await readdir(TEMPLATES)) await copyFile(join(TEMPLATES, file), join(folder, file));
      const own =
        '<mjml><mj-body><mj-section><mj-column><mj-text><%= it.premium %></mj-text></mj-column></mj-section></mj-body></mjml>';
      await writeFile(join(folder, 'flow.mjml'), own);
      const mail = await renderFlowReport(createReport(), { ...OPTIONS, templatesDir: folder });
      expect(mail.html).toContain('$1.24B');
      expect(mail.images).toEqual([]);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
