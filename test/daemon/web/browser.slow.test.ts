/**
 * The status page in a real browser, on a phone and a desktop, light and dark. Screenshots are written to
 * `test-results/status/` for a person to look at. What the addresses answer is tested in `site.test.ts`.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { dirname, join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { HttpListener } from '../../../src/core/http-listener.ts';
import type { DaemonView } from '../../../src/daemon/daemon.ts';
import { dropPath, jobPath, runPath } from '../../../src/daemon/web/html.ts';
import { openActionLog } from '../../../src/state/action-log.ts';
import { RunHistory } from '../../../src/state/run-history.ts';
import type { RunRecord, RunWindow } from '../../../src/state/run-record.ts';
import { openBrowser } from '../../support/browser.ts';
import { useCleanups } from '../../support/cleanups.ts';
import { REPO } from '../../support/flowdrop.ts';
import { findBarriers, type Looking, OVERFLOWS, openPage } from './barriers.ts';
import {
  FAILED_RUN,
  HOSTILE,
  makeBadDay,
  makeCommands,
  makeDrop,
  makeGoodDay,
  makeHostileDay,
  makePrice,
  makeRun,
  makeView,
  NOW,
  type PageOptions,
  startPage,
  TOKEN,
} from './views.ts';

const SHOTS = join(REPO, 'test-results', 'status');
const SCHEMES = ['light', 'dark'] as const;
const WIDTHS = [390, 1280] as const;

const HOSTILE_RUN = makeRun(HOSTILE, 1, {
  ...{ args: [HOSTILE], outcome: 'failed', error: { code: HOSTILE, message: HOSTILE, hint: HOSTILE } },
  dates: [{ date: HOSTILE, status: HOSTILE, rows: 1, requests: 1, error: { code: HOSTILE, message: HOSTILE } }],
});

const { cleanups, folder } = useCleanups();
/** What ends with its test. */
const { cleanups: ends } = useCleanups(afterEach);
let browser: Browser;
/** What this machine remembers: runs and actions. */
let memory: string;
let web: HttpListener;
let view: DaemonView;
/** Goes on a little with every look, so that no page is a cached one. */
let now = NOW;

beforeAll(async () => {
  browser = await openBrowser();
  cleanups.push(() => browser.close());
  await mkdir(SHOTS, { recursive: true });
  memory = await folder();
  await rememberRun(FAILED_RUN, 'page');
  await rememberRun(HOSTILE_RUN, HOSTILE);
  const actions = openActionLog(join(memory, 'actions.jsonl'));
  for (const [index, outcome] of (['asked', 'done', 'started', 'refused', 'failed'] as const).entries()) {
    const at = new Date(NOW - index * 3_600_000).toISOString();
    const texts =
      index % 2 === 0 ? { who: HOSTILE, line: HOSTILE, text: HOSTILE } : { who: 'a page', line: null, text: '' };
    await actions.append({ id: String(index), at, action: 'run', job: 'nightly-trades', outcome, ...texts });
  }
  web = await start(undefined);
  cleanups.push(() => web.close());
});

/** With a chart of all that there is, and a log of every level. @param text in windows and lines */
async function rememberRun(run: RunRecord, text: string): Promise<void> {
  const history = new RunHistory(memory, run.job);
  const { entry, log } = history.files(run);
  for (const file of [entry, log]) await mkdir(dirname(file), { recursive: true });
  await history.write(run);
  const kinds: readonly RunWindow['kind'][] = ['page', 'page', 'page', 'split', 'page', 'page', 'sealed', 'failed'];
  const windows = Array.from({ length: 240 }, (_, index) => ({
    ...{ at: new Date(Date.parse(run.started_at) + index * 1_500).toISOString(), kind: kinds[index % 8] ?? 'page' },
    ...{
      date: '2026-11-20',
      window: `09:30:${index % 60}..`,
      rows: 9_000,
      requests: index,
      rate_limited: 0,
      splits: 0,
    },
    ...{ retries: Math.floor(index / 20), reason: index % 4 === 3 ? text : undefined },
  }));
  await history.appendWindows(run, windows);
  const lines = [20, 30, 40, 50].map((level) =>
    JSON.stringify({ level, time: run.started_at, event: text, msg: `${text} of level ${level}`, query: text }),
  );
  await writeFile(log, [...lines, text].join('\n'));
}

async function start(token: string | undefined, changes: PageOptions = {}): Promise<HttpListener> {
  const report = `<!doctype html><title>Flow</title><script>document.title='ran'</script>`;
  return await startPage({
    token,
    view: () => view,
    stateDir: memory,
    commands: makeCommands({ report: async () => report }),
    clock: { now: () => (now += 1_100), sleep: async () => {} },
    ...changes,
  });
}

async function look(shown: DaemonView, { path = '/', ...looking }: Looking & { readonly path?: string } = {}) {
  view = shown;
  const seen = await openPage(browser, web.url, path, looking);
  ends.push(() => seen.context.close());
  return seen;
}

describe('the status page in a browser', () => {
  it.each([
    ['good', makeGoodDay],
    ['bad', makeBadDay],
    ['empty', () => makeView([])],
    ['hostile', makeHostileDay],
  ] as const)(
    'of a %s day fits, is accessible and keeps to itself, in every width and both themes',
    async (name, make) => {
      const [job] = make().jobs;
      const ofJob = job ? { job: jobPath(job.name), drop: `${dropPath(job.name, '2026-11-20')}?rows=1` } : {};
      const run = [FAILED_RUN, HOSTILE_RUN].find((each) => each.job === job?.name);
      const ofRun = run ? { run: runPath(run.job, run.id) } : { none: '/nothing' };
      const paths = { overview: '/', ...ofJob, ...ofRun, runs: '/runs', reports: '/reports', actions: '/actions' };
      // The dark theme has other colors, and no other layout.
      const looks = [
        ...WIDTHS.map((width) => ({ scheme: 'light', width }) as const),
        ...(name === 'good' || name === 'bad' ? [{ scheme: 'dark', width: 390 } as const] : []),
      ];
      for (const { scheme, width } of looks) {
        for (const [which, path] of Object.entries(paths)) {
          const where = `${which} of a ${name} day at ${width} px, ${scheme}`;
          const { context, page, troubles, strangers } = await look(make(), { width, scheme, path });
          await page.screenshot({ path: join(SHOTS, `${name}-${which}-${width}-${scheme}.png`), fullPage: true });
          expect(await page.evaluate(OVERFLOWS), where).toEqual([]);
          // What Chromium says of the page that there is not.
          expect(
            troubles.filter((text) => which !== 'none' || !text.includes('404')),
            where,
          ).toEqual([]);
          expect(await findBarriers(page), where).toEqual([]);
          expect(strangers, where).toEqual([]);
          await context.close();
        }
      }
    },
    180_000,
  );

  it('sorts and filters its jobs, and keeps that while the page follows the daemon', async () => {
    const { page, troubles } = await look(makeBadDay());
    const names = () => page.locator('table.jobs tbody tr:not([hidden]) th a').allTextContents();
    await page.getByRole('button', { name: 'Job', exact: true }).press('Enter');
    await page.getByRole('button', { name: 'Job', exact: true }).press('Enter');
    expect(await names()).toEqual(['zero-dte', 'spx-chain', 'nightly-trades']);
    expect(await page.locator('th[aria-sort]').getAttribute('aria-sort')).toBe('descending');
    await page.getByRole('button', { name: 'State', exact: true }).click();
    expect(await names()).toEqual(['spx-chain', 'zero-dte', 'nightly-trades']);
    await page.getByLabel('Find').fill('TRADES');
    expect(await names()).toEqual(['spx-chain', 'nightly-trades']);
    await page.getByLabel('State').selectOption('running');
    expect(await names()).toEqual(['nightly-trades']);
    view = makeBadDay(6_300_000);
    view = { ...view, jobs: view.jobs.map((job) => ({ ...job, next_run: new Date(now + 5_400_000).toISOString() })) };
    await page.locator('tr:not([hidden]) td', { hasText: 'in 1 h' }).waitFor({ timeout: 15_000 });
    expect(await names()).toEqual(['nightly-trades']);
    expect(troubles).toEqual([]);
  });

  it('says first what is wrong, and names every condition in a sentence of its own', async () => {
    const { page } = await look(makeBadDay(), { path: '/jobs/nightly-trades' });
    expect(await page.locator('.verdict .first').textContent()).toMatch(
      /^4 gaps; the first, 2026-11-10, begins to expire in 34 h\./,
    );
    const days = await page
      .locator('#job-1 td.day.expired, #job-1 td.day.degraded, #job-1 td.day.pending')
      .allTextContents();
    expect(days[0]).toContain('Fri, Nov 6, 2026: expired');
    expect(days[1]).toContain('Tue, Nov 10, 2026: pending, begins to expire Nov 25, 00:00 ET');
    expect(days[2]).toContain('Fri, Nov 13, 2026: degraded, 7,212,400 rows, revision 2');
    expect(await page.locator('#job-1 td.day.closed').allTextContents()).toContainEqual(
      expect.stringContaining('Thu, Nov 26, 2026: closed, Thanksgiving Day'),
    );
  });

  it('tells rows and revision on hover and on focus, inside the screen', async () => {
    for (const width of WIDTHS) {
      const { page } = await look(makeBadDay(), { width, path: '/jobs/nightly-trades' });
      for (const column of [2, 3, 4, 5, 6]) {
        const day = page.locator(`#job-1 table.calendar tbody tr:nth-child(4) td:nth-child(${column})`).first();
        const tip = day.locator('.tip');
        await day.scrollIntoViewIfNeeded();
        const isShown = async () => (await tip.boundingBox())?.width !== 1;
        await page.mouse.move(1, 1);
        expect(await isShown()).toBe(false);
        if (column % 2 === 0) await day.hover();
        else await day.locator('a').focus();
        await expect.poll(isShown).toBe(true);
        const box = await tip.boundingBox();
        expect(box && box.x >= 0 && box.x + box.width <= width, `column ${column} at ${width}`).toBe(true);
        if (column === 3) await page.screenshot({ path: join(SHOTS, `tip-${width}.png`) });
      }
    }
  });

  it('moves on with a run by itself, and leaves scroll, focus and what is unfolded where they were', async () => {
    const { page, troubles } = await look(makeBadDay(1_000_000), { width: 360, path: '/jobs/nightly-trades' });
    await page.locator('#job-1 summary').first().click();
    const day = page.locator('#job-1 [data-key="2026-11-13"]');
    await day.focus();
    await page.evaluate('scrollTo(0, 700)');
    await page.evaluate('window.stays = true');
    const scroll = await page.evaluate<number>('scrollY');
    expect(scroll).toBe(700);
    const changed = makeBadDay(6_300_000);
    const [job, ...others] = changed.jobs;
    const status = job?.status;
    if (!job || !status) throw new Error('the day has a job');
    // The calendar is replaced too: the focused day has more rows.
    const dates = status.dates.map((date) => (date.date === '2026-11-13' ? { ...date, rows: 7_300_001 } : date));
    view = { ...changed, jobs: [{ ...job, status: { ...status, dates } }, ...others] };
    await expect.poll(() => page.locator('progress').getAttribute('value'), { timeout: 15_000 }).toBe('0.750');
    await expect.poll(() => day.textContent()).toContain('7,300,001 rows');
    expect(await page.evaluate('window.stays')).toBe(true);
    expect(await page.evaluate('scrollY')).toBe(scroll);
    expect(await page.evaluate('document.activeElement.dataset.key')).toBe('2026-11-13');
    expect(await page.locator('#job-1 details').first().getAttribute('open')).toBe('');
    expect(troubles).toEqual([]);
  });

  it('is whole without scripts, and reloads by itself then', async () => {
    const { page } = await look(makeBadDay(), { scripts: false });
    expect(await page.locator('table.jobs tbody tr').count()).toBe(3);
    expect(await page.locator('.filter').isVisible()).toBe(false);
    expect(await page.content()).toContain('http-equiv="refresh" content="30"');
  });

  it('says that the daemon does not answer any more', async () => {
    const { context, page } = await look(makeBadDay());
    expect(await page.locator('#silent').isVisible()).toBe(false);
    await context.setOffline(true);
    await page.locator('#silent').waitFor({ state: 'visible', timeout: 20_000 });
  });

  it('shows texts that mean harm literally, and neither runs nor builds anything of them', async () => {
    const { page, troubles } = await look(makeHostileDay(), { path: jobPath(HOSTILE) });
    expect(await page.locator('h1').textContent()).toBe(HOSTILE);
    const built = `document.querySelectorAll('img, script:not(:last-of-type), [onerror]').length`;
    expect(await page.evaluate(built)).toBe(0);
    await page.locator('.previews summary').click();
    await page.locator('.previews a').click();
    await expect.poll(() => page.title()).toBe('Flow');
    expect(troubles.filter((text) => !/blocked|sandbox|violates/i.test(text))).toEqual([]);
  });

  it('does what a person came for in four steps at most, by keyboard and on a phone', async () => {
    const asked: unknown[] = [];
    const day = makeBadDay();
    view = { ...day, jobs: day.jobs.map((job) => ({ ...job, running: null })) };
    const commands = makeCommands({
      backfill: () => makePrice({ date: '2026-11-18', rows: 5 }, { date: '2026-11-19', rows: 4 }),
      gap: (...gap) => void asked.push(gap),
      drop(job, date) {
        const unsealed = { condition: 'missing', manifest: null, location: null, revisions: [] } as const;
        return makeDrop(job, date, date === '2026-11-18' ? { ...unsealed, revisions: [] } : {});
      },
    });
    const acting = await start(undefined, {
      commands,
      ask(ask) {
        asked.push(ask);
        return { outcome: 'started', text: 'It begins.' };
      },
    });
    const { context, page } = await openPage(browser, acting.url, '/', { width: 390 });
    ends.push(
      () => acting.close(),
      () => context.close(),
    );
    const press = async (name: string | RegExp, role: 'button' | 'link' = 'button') =>
      await page.getByRole(role, { name }).first().press('Enter');
    const steps = async (path: string, ...all: readonly (() => Promise<unknown>)[]) => {
      await page.goto(acting.url + path);
      expect(all.length).toBeLessThanOrEqual(4);
      for (const each of all) await each();
    };
    /** In both themes. */
    const barriers = async () => {
      const found: string[] = [];
      for (const colorScheme of SCHEMES) {
        await page.emulateMedia({ colorScheme });
        found.push(...(await findBarriers(page)));
      }
      return found;
    };
    const done = () => page.getByRole('heading', { name: 'Started' }).waitFor();
    await steps('/', () => press('See why', 'link'));
    await page.getByText('cannot be reached: connect ECONNREFUSED').waitFor();
    expect(await page.getByText('page of level 50').count()).toBe(1);
    await steps('/', () => press('Retry now'), done);
    expect(asked.at(-1)).toEqual({ job: 'nightly-trades', command: 'run', options: [] });
    await steps(
      '/jobs/nightly-trades',
      () => page.getByText('Backfill dates…').press('Enter'),
      async () => {
        await page.getByLabel('From').fill('2026-11-18');
        await page.getByLabel('To', { exact: true }).fill('2026-11-19');
      },
      () => press('Show the cost'),
      async () => {
        await page.getByRole('heading', { name: 'The price' }).waitFor();
        expect(await barriers()).toEqual([]);
        await press('Start the backfill');
      },
    );
    await done();
    expect(asked.at(-1)).toMatchObject({
      command: 'backfill',
      options: ['--from', '2026-11-18', '--to', '2026-11-19'],
    });
    expect(await barriers()).toEqual([]);
    await steps('/drops/nightly-trades/2026-11-20', async () => {
      const download = page.waitForEvent('download');
      await press(/^Download/, 'link');
      expect((await download).suggestedFilename()).toBe('2026-11-20-trades.parquet');
    });
    await steps(
      '/reports',
      () => press('flow report', 'link'),
      () => page.waitForURL(/2026-11-20/),
    );
    await steps(
      '/drops/nightly-trades/2026-11-18',
      () => page.getByLabel('Reason').fill('vendor outage'),
      () => press('Accept'),
      () => page.getByRole('heading', { name: 'Done' }).waitFor(),
    );
    expect(asked.at(-1)).toEqual(['nightly-trades', '2026-11-18', ['--reason=vendor outage']]);
  });

  it('is opened with the token once, and afterwards without it, and acts, also from another machine without TLS', async () => {
    view = makeGoodDay();
    const own = Object.values(networkInterfaces()).flat();
    const host = own.find((one) => one?.family === 'IPv4' && !one.internal)?.address ?? '127.0.0.1';
    const closed = await start(TOKEN, {
      address: { host: '0.0.0.0', port: 0 },
      ask: () => ({ outcome: 'started', text: 'It begins.' }),
    });
    const url = `http://${host}:${new URL(closed.url).port}`;
    const { context, page } = await openPage(browser, url, '', { width: 360 });
    ends.push(
      () => closed.close(),
      () => context.close(),
    );
    await page.screenshot({ path: join(SHOTS, 'token-360.png') });
    expect(await findBarriers(page)).toEqual([]);
    await page.getByLabel('Token').fill(TOKEN);
    await page.getByRole('button').click();
    await page.locator('.verdict').waitFor();
    expect(page.url()).toBe(`${url}/`);
    const [cookie] = await context.cookies();
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Lax' });
    expect(cookie?.value).not.toContain(TOKEN);
    await page.reload();
    expect(await page.locator('.verdict').count()).toBe(1);
    await page.goto(`${url}/jobs/nightly-trades`);
    await page.getByRole('button', { name: 'Run now' }).click();
    await page.getByRole('heading', { name: 'Started' }).waitFor();
  });
});
