/** `flowdrop demo` in an empty folder, as a new user runs it: what it makes, and that the mail's numbers are the data's. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import { beforeAll, describe, expect, it } from 'vitest';
import { formatCount, formatDollars } from '../../src/core/units.ts';
import { useCleanups } from '../support/cleanups.ts';
import { queryDuckDb } from '../support/drop.ts';
import { type Finished, flowdrop, listFiles, REPO } from '../support/flowdrop.ts';

const ROWS = 6_000;

describe('the demo', () => {
  const { folder } = useCleanups();
  let cwd: string;
  let run: Finished;
  beforeAll(async () => {
    cwd = await folder();
    run = await flowdrop(['demo', '--rows', String(ROWS)], { cwd });
  });

  it('ends well and says where everything is', () => {
    expect(run.code, run.stderr).toBe(0);
    for (const part of ['Drops', 'Mail', 'Report  ', ': Flow ', formatCount(ROWS)]) expect(run.stdout).toContain(part);
    // Without a mail server no mail is sent.
    expect(run.stdout).toMatch(/^ {2}written for desk@example\.com, not sent: .*out\/mail\/.*\.eml$/m);
    expect(run.stderr).toMatch(/report for desk@example\.com written to .*out\/mail/);
  });

  it('ends with a `status` and a query that show its run', async () => {
    const [, folder = '', job = ''] = /FLOWDROP_STATE_DIR=(\S+) flowdrop status (\S+)/.exec(run.stdout) ?? [];
    const jobs = ['--jobs', join(REPO, 'jobs')];
    const status = await flowdrop([...jobs, 'status', job], { cwd, env: { FLOWDROP_STATE_DIR: folder }, code: 0 });
    expect(status.stdout).toMatch(/^last run .*: done, sealed 3 of 3/m);
    const [, sql = '', store = ''] = /flowdrop query "([^"]+)" --from-store (\S+)/.exec(run.stdout) ?? [];
    const query = await flowdrop(['query', sql, '--from-store', store, '--format', 'json'], { cwd });
    expect(JSON.parse(query.stdout), query.stderr).toHaveLength(10);
  });

  it('seals three sessions, each with its Parquet, summary, counts and manifest, and their conditions', async () => {
    const files = await listFiles(join(cwd, 'out', 'drops'));
    expect(files.filter((name) => name.startsWith('trades/'))).toHaveLength(3);
    expect(files.filter((name) => name.startsWith('_flowdrop/trades/'))).toHaveLength(11);
    const names = ['trades.parquet', 'summary.parquet', 'counts.parquet', 'manifest.json', 'condition.json'];
    const counts = names.map((end) => files.filter((name) => name.endsWith(end)).length);
    expect(counts).toEqual([3, 3, 3, 4, 2]);
  });

  it('mails numbers that are those of a query over the Parquet', async () => {
    const mails = await listFiles(join(cwd, 'out', 'mail'));
    expect(mails.map((name) => name.replace(/.*\./, ''))).toEqual(['eml', 'html']);
    const mail = await PostalMime.parse(await readFile(join(cwd, 'out', 'mail', mails[0] ?? '')));
    const date = /\d{4}-\d{2}-\d{2}/.exec(mail.subject ?? '')?.[0];
    const [sums] = await queryDuckDb(`
      SELECT count(*)::DOUBLE AS trades, sum(premium) AS total, sum(premium) FILTER (put_call = 'CALL') AS calls, sum(premium) FILTER (put_call = 'PUT') AS puts,
        sum(premium) FILTER (sentiment = 'BULLISH') AS bullish, sum(premium) FILTER (sentiment = 'BEARISH') AS bearish
      FROM '${join(cwd, 'out', 'drops', 'trades', `session=${date}`, 'trades.parquet')}'`);
    const show = (names: readonly string[]) => names.map((name) => formatDollars(Number(sums?.[name])));
    const figures = show(['total', 'bullish', 'bearish']);
    const page = mail.attachments.find(({ filename }) => filename === `nightly-trades-${date}-full-report.html`);
    const full = new TextDecoder().decode(page?.content as ArrayBuffer);
    for (const figure of [...figures, formatCount(Number(sums?.['trades']))]) {
      expect(mail.html).toContain(figure);
      expect(mail.text).toContain(figure);
      expect(full).toContain(figure);
    }
    for (const figure of show(['calls', 'puts'])) expect(full).toContain(figure);
    expect(mail.subject).toContain(figures[0]);
    expect(mail.attachments.filter(({ mimeType }) => mimeType === 'image/png')).toHaveLength(4);
  });

  it('fetches nothing and mails nobody when it is run again', async () => {
    const before = await listFiles(join(cwd, 'out', 'drops'));
    const again = await flowdrop(['demo', '--rows', String(ROWS)], { cwd, code: 0 });
    expect(again.stdout).toContain('Nothing to seal: every date with rows is sealed');
    expect(await listFiles(join(cwd, 'out', 'drops'))).toEqual(before);
  });
});
