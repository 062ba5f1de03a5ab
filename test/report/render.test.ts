/**
 * The mail that a report becomes: subject, HTML, text and pictures, for a full day, an empty one, one trade, and for
 * data that tries to be markup. The numbers themselves: `flow.test.ts` and `naive.test.ts`.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { buildSymbolChart, CHART_WIDTH } from '../../src/report/chart.ts';
import type { SealedDrop } from '../../src/report/drop.ts';
import { buildFlowReport, MAX_WATCHLIST } from '../../src/report/flow.ts';
import { renderPicture } from '../../src/report/picture.ts';
import { readPremium } from '../../src/report/premium.ts';
import { type RenderedReport, renderFlowReport } from '../../src/report/render.ts';
import {
  createDropFolder,
  createTrade,
  hasVixDay,
  readVixDay,
  TEMPLATES,
  type Trade,
  VIX_MISSING,
  writeDrop,
} from './drop-file.ts';

/** Gmail clips a message beyond about 102 kB. */
const MAX_HTML_BYTES = 100_000;

let engine: Engine;
let folder: Awaited<ReturnType<typeof createDropFolder>>;

beforeAll(async () => {
  engine = await openEmbeddedEngine();
  folder = await createDropFolder();
});
afterAll(async () => {
  await engine.close();
  await folder.remove();
});

async function renderDay(
  name: string,
  trades: readonly Trade[],
  symbols: readonly string[] = [],
  changes: Partial<SealedDrop> = {},
): Promise<RenderedReport> {
  const drop = { ...(await writeDrop(engine, folder.path, name, trades)), ...changes };
  const now = new Date('2026-11-19T22:32:00Z');
  return await renderFlowReport(
    await buildFlowReport(engine, drop, { symbols, now, job: 'nightly-trades' }),
    TEMPLATES,
  );
}

describe.skipIf(!hasVixDay)(hasVixDay ? 'the mail of a real session' : VIX_MISSING, () => {
  let mail: RenderedReport;
  beforeAll(async () => {
    mail = await renderDay('vix', readVixDay(), ['VIX']);
  });

  it('has date and headline in the subject', () => {
    expect(mail.subject).toBe('Options flow 2016-06-01: $22.7M premium, 59 % calls, bullish +$1.00M');
  });

  it('says the headline numbers, the stamp and where the file is, in both parts', () => {
    const facts = [
      ...['$22.7M', '$13.4M', '$9.33M', '$4.68M', '$3.67M', '$14.4M', '0.70', '2,295', '306,679 contracts'],
      ...['available', '09:30:02', '16:14:52', '2026-11-19 22:31 UTC', 'Wednesday, 1 June 2016', '1 cancel message'],
      ...['c0ffee'.padEnd(64, '0'), 's3://quant-drops/options/trades/date=2026-11-19/vix.parquet', 'VIX'],
      ...['per 1 % move', 'ontracts that traded this day only', 'sum(premium) AS total_premium'],
    ];
    for (const fact of facts) {
      expect(mail.html, fact).toContain(fact);
      expect(mail.text, fact).toContain(fact);
    }
  });

  it('names no local path', () => {
    expect(mail.html + mail.text).not.toContain(folder.path);
  });

  it('shows every picture that it carries, with a text for those who do not see it', () => {
    expect(mail.images.map((image) => image.cid)).toEqual(['session', 'symbols']);
    for (const { cid } of mail.images) expect(mail.html).toContain(`src="cid:${cid}"`);
    expect(mail.html).toContain('alt="Premium per half hour, stacked by sentiment. Busiest half hour: ');
  });

  it('has pictures of twice the width shown', () => {
    for (const { png } of mail.images) {
      expect(Buffer.from(png.subarray(0, 8)).toString('hex')).toBe('89504e470d0a1a0a');
      expect(Buffer.from(png.subarray(16, 20)).readUInt32BE()).toBe(2 * CHART_WIDTH);
    }
  });

  it('marks headers of columns and rows for screen readers', () => {
    expect(mail.html).toContain('scope="col"');
    expect(mail.html).toContain('scope="row"');
    expect(mail.html).toContain('<caption');
  });
});

describe('a mail from data that tries to be markup', () => {
  const hostile = '<script>alert(1)</script>';
  let mail: RenderedReport;
  beforeAll(async () => {
    const breaking = '"><img src=x onerror=alert(1)>\r\nBcc: all@example.com';
    const trades = [
      createTrade({ symbol: hostile, premium: 9e9, side: hostile, sentiment: hostile, option_activity_type: hostile }),
      createTrade({ id: '2', symbol: breaking, option_symbol: breaking, put_call: '<%= process.exit() %>' }),
      createTrade({ id: '3', symbol: '</mj-text><mj-raw><b>' }),
      createTrade({ id: '4', symbol: 'X\r\nBcc: a', side: 'A\u2028Bcc: b', option_activity_type: 'B\nBcc: c' }),
    ];
    mail = await renderDay('hostile', trades, [hostile, breaking, '{{7*7}}']);
  });

  it('shows the symbol as text', () => {
    expect(mail.html).toContain('&lt;script&gt;alert(1)&lt;/script&gt;');
    expect(mail.html).not.toMatch(/<script/i);
    expect(mail.text).toContain(hostile);
  });

  it('has no element or attribute that came with the data', () => {
    expect(mail.html).not.toMatch(/<img[^>]+onerror/i);
    expect(mail.html).not.toMatch(/<mj-raw/i);
    expect(mail.html.match(/<img /g)).toHaveLength(2);
  });

  it('has a subject of printable ASCII on one line, without any text of a record', () => {
    expect(mail.subject).toMatch(/^[\x20-\x7e]+$/);
    expect(mail.subject).not.toContain('script');
  });

  it('has no line of the text part that begins with what the data brought', () => {
    expect(mail.text).toContain('Bcc: c');
    expect(mail.text).not.toMatch(/^Bcc:/mu);
  });
});

describe('the mail of an unusual day', () => {
  it('an empty day says so, and carries no pictures', async () => {
    const mail = await renderDay('empty', [], ['SPY']);
    expect(mail.subject).toBe('Options flow 2026-11-19: no trades');
    expect(mail.images).toEqual([]);
    expect(mail.html).not.toContain('cid:');
    for (const part of [mail.html, mail.text]) {
      expect(part).toContain('No trades in the sealed drop of this date');
      expect(part).not.toMatch(/NaN|Infinity|undefined|null/);
    }
  });

  it('a single trade renders whole', async () => {
    const mail = await renderDay('single', [createTrade()]);
    expect(mail.subject).toBe('Options flow 2026-11-19: $1.25K premium, 100 % calls, bullish +$1.25K');
    expect(mail.images).toHaveLength(2);
    expect(mail.text).toContain('SPY 2026-11-20 600 C');
    expect(mail.html + mail.text).not.toMatch(/NaN|Infinity|undefined/);
  });

  it('a degraded day says it in the subject and above the numbers', async () => {
    const mail = await renderDay('degraded', [createTrade()], [], { condition: 'degraded' });
    expect(mail.subject).toContain('[degraded]');
    expect(mail.html).toContain('This day is not verified as complete.');
    expect(mail.text).toContain('DEGRADED');
  });

  it('a full market with the longest watchlist stays below the size that mail programs clip', async () => {
    const symbols = Array.from({ length: 60 }, (_, index) => `LONGSYM${index}`);
    const trades = symbols.flatMap((symbol, index) => [
      createTrade({ id: `${index}a`, symbol, premium: 123_456_789 + index }),
      createTrade({ id: `${index}b`, symbol, put_call: 'PUT', sentiment: 'BEARISH', time: '2026-11-19 15:59:59' }),
    ]);
    const mail = await renderDay('full', trades, symbols);
    expect(Buffer.byteLength(mail.html)).toBeLessThan(MAX_HTML_BYTES);
    expect(mail.html).toContain(`${60 - MAX_WATCHLIST} more on the list are not shown`);
  });
});

describe('a chart', () => {
  it('has its text drawn: another symbol of the same length is another picture', async () => {
    const flow = { ...readPremium(undefined), total: 100, bullish: 60, bearish: 40, place: 1 };
    const draw = async (symbol: string) =>
      Buffer.from(await renderPicture(buildSymbolChart([{ ...flow, symbol }]), CHART_WIDTH)).toString('base64');
    const [spy, again, qqq] = [await draw('SPY'), await draw('SPY'), await draw('QQQ')];
    expect(spy === again).toBe(true);
    expect(spy === qqq).toBe(false);
  });
});

describe('templates', () => {
  it('a missing template is named in the error', async () => {
    const drop = await writeDrop(engine, folder.path, 'template', [createTrade()]);
    const report = await buildFlowReport(engine, drop, { symbols: [], now: new Date(0), job: 'nightly-trades' });
    await expect(renderFlowReport(report, folder.path)).rejects.toMatchObject({
      code: 'TEMPLATE_INVALID',
      message: expect.stringContaining('flow.mjml'),
    });
  });
});
