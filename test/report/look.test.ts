/**
 * A report in a job's own look, part by part: subject, accent, logo, note. Nothing of it hides how to read the numbers, and
 * nothing of it is markup. Whole mails and pages: `look-mail.slow.test.ts`; own templates: `report-look.slow.test.ts`.
 */
import { describe, expect, it } from 'vitest';
import { buildAccent, contrastOf, DARK } from '../../src/report/draw/palette.ts';
import { drawLogo } from '../../src/report/draw/picture.ts';
import {
  CLOSING_SECTIONS,
  cleanNote,
  type ReportLook,
  renderNote,
  SECTIONS,
  USUAL_LOOK,
} from '../../src/report/look.ts';
import type { FlowReport } from '../../src/report/model.ts';
import { listTables } from '../../src/report/report-tables.ts';
import { buildSampleDay } from '../../src/report/sample-day.ts';
import { buildDigestView, buildFlowView } from '../../src/report/text/mail-view.ts';
import { DAYS, DIGEST, OPTIONS, pickDay } from './days.ts';
import { createSvgLogo, JPEG_LOGO } from './logos.ts';
import { createReport } from './model-fixture.ts';

const withLook = (look: Partial<ReportLook>) => ({ ...OPTIONS, look: { ...USUAL_LOOK, ...look } });
const subjectOf = (report: FlowReport, subject: string, more: Partial<typeof OPTIONS> = {}) =>
  buildFlowView(report, { ...withLook({ subject }), ...more }).subject;

describe('an own subject', () => {
  it('has the facts of the day at its placeholders', () => {
    const words = 'Hafen {date} ({day}), {job}/{dataset} r{revision}: {premium}, {sentiment}, {trades} trades';
    expect(subjectOf(pickDay('normal').report, words)).toBe(
      'Hafen 2026-11-19 (Thursday, November 19, 2026), nightly-trades/trades r1: $1.24B, bullish by $112M, 812,345 trades',
    );
  });

  it('hides neither a part of the market, an incomplete, late or corrected day, nor trades without a premium', () => {
    const { report } = pickDay('degraded');
    const filtered = { ...report, drop: { ...report.drop, filter: 'premium >= 50000' } };
    expect(subjectOf(filtered, 'All is well', { late: true })).toBe('[filtered] [degraded] [late] All is well');
    const correction = { fromRevision: 1, changes: [] };
    expect(subjectOf(report, 'All is well', { correction })).toBe('Correction: [degraded] All is well');
    const { headline } = createReport();
    const unpriced = createReport({ headline: { ...headline, unpriced: 3 } as never });
    expect(subjectOf(unpriced, '{premium}')).toBe('$1.24B (3 of 812,345 trades have no premium)');
    expect(subjectOf(pickDay('no-trades').report, '{premium}; {sentiment}')).toBe('no trades; no trades');
  });

  it('of a digest names what is pending, and the numbers of each dataset', () => {
    const { subject } = buildDigestView(DIGEST, withLook({ subject: 'Desk {date}: {premium}' }));
    expect(subject).toBe('[degraded] [1 pending] Desk 2026-11-19: trades $1.24B, trades $8.73B');
  });

  it('is one line, whatever it and the data bring', () => {
    const report = createReport({ job: 'a\r\nBcc: b@example.com\u202E' });
    expect(subjectOf(report, '{job}')).toBe('a  Bcc: b@example.com');
  });
});

describe('an accent', () => {
  it('is used as it is where it can be read, and else only as much darker or lighter as that needs', () => {
    const colours = Array.from(
      { length: 256 },
      (_, at) => `#${(at * 65_793 * 7919).toString(16).slice(-6).padStart(6, '0')}`,
    );
    for (const chosen of [...colours, '#000000', '#ffffff', '#ffb000']) {
      const { light, dark } = buildAccent(chosen);
      for (const [shade, ground] of [
        [light, '#ffffff'],
        [dark, DARK.ground],
      ] as const) {
        expect(contrastOf(shade, ground), chosen).toBeGreaterThanOrEqual(4.5);
        if (contrastOf(chosen, ground) >= 4.5) expect(shade).toBe(chosen);
        else expect(contrastOf(shade, ground), chosen).toBeLessThan(4.9);
      }
    }
    expect(contrastOf('#000000', '#ffffff')).toBeCloseTo(21, 10);
    expect(buildAccent('#0b3d91').light).toBe('#0b3d91');
  });
});

describe('a logo', () => {
  it.each([
    ['SVG', Buffer.from(createSvgLogo(400, 80)), 220, 44],
    [
      'SVG without a size of its own',
      Buffer.from(createSvgLogo().replace('<svg', '\uFEFF<?xml version="1.0"?><svg')),
      220,
      44,
    ],
    ['JPEG', JPEG_LOGO, 12, 6],
  ])('as %s becomes a PNG of the size that it is shown in', async (_, bytes, width, height) => {
    const logo = await drawLogo('logo', bytes);
    expect([logo.width, logo.height]).toEqual([width, height]);
    const [head, sizes] = [Buffer.from(logo.png.subarray(0, 8)), Buffer.from(logo.png.subarray(16, 24))];
    expect(head.toString('hex')).toBe('89504e470d0a1a0a');
    expect([sizes.readUInt32BE(0), sizes.readUInt32BE(4)]).toEqual([2 * width, 2 * height]);
    // A PNG, too.
    expect((await drawLogo('logo', logo.png)).png.length).toBeGreaterThan(50);
  });

  it.each([
    ['a text', Buffer.from('GIF89a'), 'is not a PNG, JPEG or SVG'],
    ['a page', Buffer.from('<html><svg></svg></html>'), 'is not a PNG, JPEG or SVG'],
    ['a cut JPEG', JPEG_LOGO.subarray(0, 40), 'shows nothing'],
    ['a broken SVG', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><rect'), 'shows nothing'],
    [
      'a file of a megabyte',
      Buffer.concat([Buffer.from('\x89PNG\r\n', 'latin1'), Buffer.alloc(1_000_000)]),
      '1000006 bytes',
    ],
  ])('that is %s is refused by its name', async (_, bytes, reason) => {
    await expect(drawLogo('jobs/logo.png', bytes)).rejects.toMatchObject({
      ...{ code: 'LOGO_INVALID', kind: 'usage' },
      message: expect.stringMatching(new RegExp(`^jobs/logo\\.png: .*${reason}`)),
    });
  });
});

describe('a note', () => {
  it.each([
    '<script>alert(1)</script>',
    '<img src=x onerror=alert(1)>',
    '</mj-text><mj-raw><b>x</b></mj-raw>',
    '[a](javascript:alert(1))',
    '[a](JaVaScRiPt&#58;alert(1))',
    '[a](data:text/html;base64,PHNjcmlwdD4=)',
    '[a](//example.com)',
    '![a](https://example.com/pixel.png)',
    '<https://example.com/"onmouseover="alert(1)>',
    '[a](https://example.com "x\\" onmouseover=\\"alert(1)")',
    '<%= it.job %> {{7*7}}',
  ])('that tries to be more than Markdown stays text: %s', async (note) => {
    const html = await renderNote(note);
    expect(html).not.toMatch(/<(?!\/?(?:p|a|strong|em|br|code)\b)/);
    expect(html.replace(/="[^"]*"/g, '=')).not.toMatch(/<[^>]* (?!href=|title=)[a-z]+=/);
    expect(html).not.toMatch(/(?:href|src)="(?!https?:\/\/|mailto:)/);
  });

  it('has no control character in the text', () => {
    expect(cleanNote('a\u0007\r\nb\u202Ec ')).toBe('a\nbc');
  });
});

describe('sections', () => {
  it('have a name for every table of the report', () => {
    const names = [buildSampleDay('trades'), ...DAYS.map(({ report }) => report)].flatMap((report) =>
      listTables(report).map(({ name }) => name),
    );
    expect([...new Set(names)].filter((name) => !SECTIONS.some((known) => known === name))).toEqual([]);
    expect(new Set(names).size + CLOSING_SECTIONS.length + 4).toBe(SECTIONS.length);
  });
});
