/**
 * Delivery of reports, on a real engine, a real SMTP server and a store in a directory: which dates, to whom, and what
 * the store knows afterwards. What a server that fails does is in `mails.slow.test.ts`; the command in `test/flow`.
 */
import { createHash } from 'node:crypto';
import { pino } from 'pino';
import PostalMime from 'postal-mime';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { deliverReports, previewReport } from '../../src/deliver/deliver.ts';
import { LEASE_MS, RENEWAL_MS } from '../../src/deliver/receipt.ts';
import { describeUnsealed } from '../../src/ledger/condition-file.ts';
import { dropKey } from '../../src/ledger/layout.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import type { Manifest } from '../../src/ledger/manifest.ts';
import { type Mailer, MailFault, openOutboxMailer } from '../../src/mail/message.ts';
import type { Run } from '../../src/run/run.ts';
import { TEMPLATES } from '../report/drop-file.ts';
import { useCleanups } from '../support/cleanups.ts';
import { createFakeClock } from '../support/fake-clock.ts';
import { answer, at, Died, dieAt, faultStore } from '../support/fault-store.ts';
import { listKeys, pickNewest, readText } from '../support/store-keys.ts';
import { STORES } from '../support/stores.ts';
import { createReportJob, type DeliveryBench, openDeliveryBench } from './bench.ts';
import { sealDay } from './sealed-day.ts';

const [MONDAY, TUESDAY, WEDNESDAY, THURSDAY] = ['2026-11-16', '2026-11-17', '2026-11-18', '2026-11-19'] as const;
/** Sentiment turns and premium doubles: every number is another. */
const OTHER_DAY = [{ premium: 2500, put_call: 'PUT', sentiment: 'BEARISH' }];

const { folder } = useCleanups();
let bench: DeliveryBench;
beforeEach(async () => {
  bench = await openDeliveryBench();
});
afterEach(async () => await bench.close());

const seal = async (date: string, more: Partial<Parameters<typeof sealDay>[2]> = {}) =>
  await sealDay(bench.engine, bench.store, { date, ...more });
const run = async (job = createReportJob(), own: Partial<Run> = {}) =>
  await deliverReports({ ...bench.context(), ...own }, job);
/** A worker whose mails leave otherwise. */
const sending = (change: (send: Mailer['send']) => Mailer['send'], context = bench.context()): Run => ({
  ...context,
  mailer: { ...context.mailer, send: change(context.mailer.send) },
});
/** Where the mail itself counts. */
const SHIPPED = { templatesDir: TEMPLATES };
/** Dates of the mails that arrived since the last look, with what is special about them. */
const arrivedDates = async () =>
  (await bench.arrived()).map((line) =>
    [/\blate\b/i, /correction/i, /\d{4}-\d{2}-\d{2}/]
      .flatMap((special) => special.exec(line)?.[0].toLowerCase() ?? [])
      .join(' '),
  );
/** Recipients of the mails that arrived since the last look. */
const arrivedTo = async () => (await bench.arrived()).map((line) => line.split(' ')[0]);
/** The end of a run that sealed none of these. */
const notePending = async (...dates: readonly string[]) => {
  const ledger = new Ledger(bench.store, 'trades');
  await ledger.writeConditions(
    dates.map((date) => describeUnsealed(date, 'pending')),
    await ledger.conditions(),
  );
};

describe('the dates that a run reports on', () => {
  it('are the newest alone when nobody was ever mailed, however many are sealed', async () => {
    for (const date of [MONDAY, TUESDAY, WEDNESDAY]) await seal(date);
    expect(await run()).toMatchObject([{ date: WEDNESDAY, late: false, recipients: [{ outcome: 'sent' }] }]);
    expect(await arrivedDates()).toEqual([WEDNESDAY]);
  });

  it('are none twice', async () => {
    await seal(MONDAY);
    await run();
    expect(await run()).toMatchObject([{ date: MONDAY, recipients: [], alreadySent: 1 }]);
    // The store is all that a worker with an empty disk needs.
    expect(await deliverReports(bench.context('elsewhere'), createReportJob())).toMatchObject([{ alreadySent: 1 }]);
    expect(await arrivedDates()).toEqual([MONDAY]);
  });

  it('are of those that only a folder has the newest, in full, although it was restated since', async () => {
    const mailer = openOutboxMailer({ directory: await folder() });
    await seal(MONDAY);
    expect(await run(createReportJob(), { mailer })).toMatchObject([{ recipients: [{ outcome: 'written' }] }]);
    const supersedes = await seal(TUESDAY);
    await run(createReportJob(), { mailer });
    await seal(TUESDAY, { supersedes });
    const skipped = expect.stringContaining('no number differs from revision 1');
    expect(await run(createReportJob(), { mailer })).toMatchObject([{ revision: 2, recipients: [], skipped }]);
    const left = { date: MONDAY, recipients: [], written: 1 };
    const sent = [{ outcome: 'sent', to: 'desk@example.com' }];
    expect(await run()).toMatchObject([left, { date: TUESDAY, revision: 2, recipients: sent }]);
    expect(await run()).toMatchObject([left, { date: TUESDAY, recipients: [], alreadySent: 1, written: 0 }]);
    expect(await arrivedDates()).toEqual([TUESDAY]);
    await deliverReports(bench.context(), createReportJob(), { date: MONDAY });
    expect(await run()).toMatchObject([{ date: TUESDAY }]);
    expect(await arrivedDates()).toEqual([`late ${MONDAY}`]);
  });

  it('begin with those sealed too late for their own evening, each once, marked late, oldest first', async () => {
    await seal(MONDAY);
    await run();
    for (const date of [WEDNESDAY, TUESDAY, THURSDAY]) await seal(date);
    expect((await run()).map(({ date, late }) => [date, late])).toEqual([
      [TUESDAY, true],
      [WEDNESDAY, true],
      [THURSDAY, false],
    ]);
    expect(await arrivedDates()).toEqual([MONDAY, `late ${TUESDAY}`, `late ${WEDNESDAY}`, THURSDAY]);
    await run();
    expect(await arrivedDates()).toEqual([]);
  });

  it('never go back before the first that a run mailed, nor beyond the lookback', async () => {
    await seal('2026-10-30');
    await run();
    await seal(WEDNESDAY);
    await run();
    await arrivedDates();
    // A backfill of what came before the first report, and of a date that is 16 days older than the newest.
    for (const date of ['2026-10-29', '2026-11-02', '2026-11-03']) await seal(date);
    await run();
    expect(await arrivedDates()).toEqual(['late 2026-11-03']);
  });

  it('do not go back to a date that only an operator mailed', async () => {
    for (const date of [MONDAY, TUESDAY, WEDNESDAY]) await seal(date);
    await deliverReports(bench.context(), createReportJob(), { date: MONDAY });
    expect(await run()).toMatchObject([{ date: WEDNESDAY }]);
    expect(await arrivedDates()).toEqual([`late ${MONDAY}`, WEDNESDAY]);
  });

  it('are not those that came before a person was a recipient', async () => {
    for (const date of [MONDAY, TUESDAY]) {
      await seal(date);
      await run();
    }
    await run(createReportJob('', 'desk@example.com, new@example.com'));
    expect(await arrivedTo()).toEqual(['desk@example.com', 'desk@example.com', 'new@example.com']);
  });

  it('are those that a dead worker began, for the recipients it had not come to', async () => {
    await seal(MONDAY);
    const job = createReportJob('', 'first@example.com, second@example.com');
    const dying = sending((send) => async (message, ...rest) => {
      if (message.to === 'second@example.com') throw new RangeError('killed');
      return await send(message, ...rest);
    });
    await expect(deliverReports(dying, job)).rejects.toThrow('killed');
    expect(await bench.statuses(MONDAY)).toEqual({ 'first@example.com': 'sent', 'second@example.com': 'sending' });
    await seal(TUESDAY);
    await run(job);
    const both = ['first@example.com', 'second@example.com'];
    expect(await arrivedTo()).toEqual([...both, ...both]);
  });

  it('that are due and not sealed are told as pending, and nobody is mailed of them', async () => {
    await seal(MONDAY);
    await run();
    await arrivedDates();
    await notePending(TUESDAY, WEDNESDAY);
    const deliveries = await run();
    expect(deliveries.filter(({ pending }) => pending).map(({ date }) => date)).toEqual([TUESDAY, WEDNESDAY]);
    expect(await arrivedDates()).toEqual([]);
  });

  it('are late also when the newer session that is over could not be sealed', async () => {
    await seal(MONDAY);
    await notePending(TUESDAY);
    expect(await run()).toMatchObject([
      { date: TUESDAY, pending: true, recipients: [] },
      { date: MONDAY, late: true, recipients: [{ outcome: 'sent' }] },
    ]);
    expect(await arrivedDates()).toEqual([`late ${MONDAY}`]);
  });

  it('that an operator tried on an address of his own are still due for the recipients', async () => {
    await seal(MONDAY);
    await run();
    for (const date of [TUESDAY, WEDNESDAY]) await seal(date);
    await deliverReports(bench.context(), createReportJob(), { date: TUESDAY, only: 'me@example.com' });
    await run();
    expect((await bench.arrived()).map((line) => [line.split(' ')[0], /\d{4}-\d{2}-\d{2}/.exec(line)?.[0]])).toEqual([
      ['desk@example.com', MONDAY],
      ['me@example.com', TUESDAY],
      ['desk@example.com', TUESDAY],
      ['desk@example.com', WEDNESDAY],
    ]);
  });

  it('go on after one whose object is damaged, which is told', async () => {
    await seal(MONDAY);
    await run();
    for (const date of [TUESDAY, WEDNESDAY]) await seal(date);
    await bench.store.put(dropKey('trades', TUESDAY), { bytes: Buffer.from('no parquet') });
    expect(await run()).toMatchObject([
      { date: TUESDAY, error: { code: 'DROP_DAMAGED', hint: expect.stringContaining('verify') } },
      { date: WEDNESDAY, error: null },
    ]);
    expect(await arrivedDates()).toEqual([MONDAY, WEDNESDAY]);
  });
});

describe('a restated day', () => {
  it('is corrected for those who had it, and reported in full to those who had not', async () => {
    const first = await seal(MONDAY);
    await run();
    await seal(MONDAY, { supersedes: first, trades: OTHER_DAY });
    await run(createReportJob('', 'desk@example.com, new@example.com'));
    const mails = await bench.mails();
    expect(mails.map(({ recipient, subject }) => [recipient, /correction/i.test(subject ?? '')])).toEqual([
      ['desk@example.com', false],
      ['desk@example.com', true],
      ['new@example.com', false],
    ]);
    expect(mails[1]?.text).toContain('$2.05K');
    expect(mails[1]?.text).toContain('$2.50K');
    expect(new Set(mails.map(({ messageId }) => messageId)).size).toBe(3);
  });

  it('is not mailed again when no number changed by more than the threshold, and that is written down', async () => {
    const first = await seal(MONDAY);
    await run();
    await seal(MONDAY, { supersedes: first, trades: [{ premium: 1251 }, { ...PUT_OF_DEFAULT, premium: 800 }] });
    expect(await run()).toMatchObject([{ revision: 2, recipients: [], skipped: expect.stringContaining('1%') }]);
    expect(await bench.statuses(MONDAY)).toEqual({ 'desk@example.com': 'skipped' });
    expect(await run()).toMatchObject([{ recipients: [], skipped: null }]);
    expect(await arrivedDates()).toEqual([MONDAY]);
  });

  it('is compared with what a person was mailed, not with the revision in between', async () => {
    const first = await seal(MONDAY);
    const job = createReportJob('correct_above: 0.1');
    await run(job);
    // Each restatement adds less than a tenth; both together more.
    const grow = (premium: number) => [{ premium }, PUT_OF_DEFAULT];
    const second = await seal(MONDAY, { supersedes: first, trades: grow(1350) });
    expect(await run(job)).toMatchObject([{ revision: 2, recipients: [] }]);
    await seal(MONDAY, { supersedes: second, trades: grow(1550) });
    expect(await run(job)).toMatchObject([{ revision: 3, recipients: [{ outcome: 'sent' }] }]);
    expect(await arrivedDates()).toEqual([MONDAY, `correction ${MONDAY}`]);
  });

  it('is mailed whole when no copy of the earlier mail can be read', async () => {
    const first = await seal(MONDAY);
    await run();
    for (const key of await listKeys(bench.store, '_flowdrop/reports/'))
      if (key.endsWith('.json') && !key.includes('/receipt/')) await bench.store.remove(key);
    await seal(MONDAY, { supersedes: first });
    expect(await run()).toMatchObject([{ revision: 2, recipients: [{ outcome: 'sent' }] }]);
    const [before, after] = await bench.mails();
    expect(after?.text).toContain('It cannot be compared number by number');
    expect(after?.text).not.toContain('What changed');
    for (const part of ['KEY NUMBERS', 'THROUGH THE DAY', 'FULL REPORT']) {
      expect(before?.text).toContain(part);
      expect(after?.text).toContain(part);
    }
  });

  it('is still owed to those who had not got it, although a test send came first', async () => {
    const job = createReportJob('', 'desk@example.com, away@example.com');
    const first = await seal(MONDAY);
    const failing = sending((send) => async (message, ...rest) => {
      if (message.to === 'away@example.com') throw new MailFault('settings', 'not today', { hint: '' });
      return await send(message, ...rest);
    });
    await deliverReports(failing, job);
    await seal(MONDAY, { supersedes: first, trades: OTHER_DAY });
    await deliverReports(bench.context(), job, { date: MONDAY, only: 'me@example.com' });
    await seal(TUESDAY);
    await bench.arrived();
    await run(job);
    expect((await bench.arrived()).map((line) => line.split(': ')[0])).toEqual([
      `desk@example.com Correction`,
      `away@example.com Flow ${MONDAY} [late]`,
      `desk@example.com Flow ${TUESDAY}`,
      `away@example.com Flow ${TUESDAY}`,
    ]);
  });

  it('is corrected also when its new numbers would not be worth a mail', async () => {
    const job = createReportJob('only_when: [{ number: premium, below: 2100 }]');
    const first = await seal(MONDAY);
    expect(await run(job)).toMatchObject([{ recipients: [{ outcome: 'sent' }] }]);
    await seal(MONDAY, { supersedes: first, trades: OTHER_DAY });
    expect(await run(job)).toMatchObject([{ revision: 2, recipients: [{ outcome: 'sent' }] }]);
  });
});

describe('a day that is not worth a mail', () => {
  it('by a condition is skipped, and not asked about again', async () => {
    const job = createReportJob('only_when: [{ number: premium, above: 1e6 }]');
    await seal(MONDAY);
    expect(await run(job)).toMatchObject([
      { recipients: [], skipped: 'premium is $2.05K, not above 1000000 (only_when)' },
    ]);
    expect(await bench.statuses(MONDAY)).toEqual({ 'desk@example.com': 'skipped' });
    expect(await run(job)).toMatchObject([{ recipients: [], skipped: null }]);
    // Nor is it sent to one address.
    const asked = await deliverReports(bench.context(), job, { date: MONDAY, only: 'me@example.com' });
    expect(asked).toMatchObject([{ recipients: [], skipped: expect.stringContaining('(only_when)') }]);
    expect(await arrivedDates()).toEqual([]);
    // It counts as reported on: what is sealed late after it is mailed.
    for (const date of [TUESDAY, WEDNESDAY]) await seal(date, { trades: [{ premium: 2e6 }] });
    await run(job);
    expect(await arrivedDates()).toEqual([`late ${TUESDAY}`, WEDNESDAY]);
  });

  it('without trades is a note, or nothing with on_empty: skip', async () => {
    await seal(MONDAY, { trades: [] });
    expect(await run(createReportJob('on_empty: skip'))).toMatchObject([
      { skipped: expect.stringContaining('no trades') },
    ]);
    expect(await run(createReportJob('symbols: [SPY]'))).toMatchObject([{ recipients: [{ outcome: 'sent' }] }]);
    expect(await arrivedDates()).toEqual([MONDAY]);
  });
});

describe('readers', () => {
  it('with a watchlist or a time zone of their own get their own edition, the others share one', async () => {
    await seal(MONDAY, { trades: [{}, { symbol: 'QQQ', option_symbol: 'QQQ261120C00600000', id: '2' }] });
    const to =
      'a@example.com, b@example.com, { address: c@example.com, symbols: [QQQ] }, { address: d@example.com, timezone: Asia/Tokyo }';
    await run(createReportJob('symbols: [SPY]', to));
    const texts = Object.fromEntries((await bench.mails()).map(({ recipient, text }) => [recipient, text ?? '']));
    expect(texts['a@example.com']).toBe(texts['b@example.com']);
    expect(texts['c@example.com']).not.toBe(texts['a@example.com']);
    expect(texts['d@example.com']).toMatch(/Asia\/Tokyo|GMT\+9/);
    expect((await listKeys(bench.store, '_flowdrop/reports/')).filter((key) => key.endsWith('.html'))).toHaveLength(3);
  });

  it('outside the allowed domains are refused by name before anybody is mailed', async () => {
    await seal(MONDAY);
    const context = bench.context();
    const restricted = { ...context, mailer: { ...context.mailer, allowedDomains: ['example.com'] } };
    const job = createReportJob('', 'desk@example.com, spy@elsewhere.example');
    await expect(deliverReports(restricted, job)).rejects.toMatchObject({
      code: 'MAIL_DOMAIN_REFUSED',
      kind: 'usage',
      message: expect.stringContaining('spy@elsewhere.example'),
    });
    expect(await bench.arrived()).toEqual([]);
    expect(await listKeys(bench.store, '_flowdrop/reports/')).toEqual([]);
  });

  it('are told which files are too large to be attached', async () => {
    await seal(MONDAY);
    await run(createReportJob('attach: [csv, pdf]\nattach_limit: 2KB'), SHIPPED);
    const [mail] = await bench.mails();
    const told = /Too large to attach: (.*)/.exec(mail?.text ?? '')?.[1]?.split(', ') ?? [];
    expect(told).toContain(`trades-${MONDAY}-report.pdf`);
    const attached = mail?.attachments.map(({ filename }) => filename) ?? [];
    for (const name of told) {
      expect(mail?.html).toContain(name);
      expect(attached).not.toContain(name);
    }
  });

  it('compare exposure with the report that was mailed of the session before, and go without a damaged one', async () => {
    await seal(MONDAY, { trades: [{ underlying_price: 600, gamma: 0.01, oi: 100, size: 500, premium: 62_500 }] });
    await run(createReportJob(), SHIPPED);
    await seal(TUESDAY, { trades: [{ underlying_price: 606, gamma: 0.02, oi: 350 }] });
    await run(createReportJob(), SHIPPED);
    const [, mail] = await bench.mails();
    // Of 100 shares each: 100 x 0.01 x 600^2 = 360,000 dollars, then 350 x 0.02 x 606^2 = 2,570,652.
    expect(mail?.text).toContain('Net GEX SPY: +$2.57M (+$2.21M vs Nov 16)');
    expect(mail?.text).toContain('Last price 606.00 (+1.0% vs Nov 16)');
    expect(mail?.text).toMatch(/Largest of Nov 16: SPY Nov 20, 2026 600 C opened 250 \(500 traded\)\./);
    const copies = (await listKeys(bench.store)).filter((key) => key.includes(TUESDAY) && key.endsWith('report.json'));
    await bench.store.put(copies[0] ?? '', { bytes: Buffer.from('[{"title": "trades", "report": {}}]') });
    await seal(WEDNESDAY);
    await run(createReportJob(), SHIPPED);
    const last = (await bench.mails()).at(-1);
    expect(last?.subject).toContain(WEDNESDAY);
    expect(last?.text).not.toContain('vs Nov 17) per');
  });

  it('of a test send are the same whatever stands before the address, and wrong addresses claim nothing', async () => {
    await seal(MONDAY);
    for (const [only, mailFrom] of [
      ['rubbish', 'flow@example.com'],
      ['desk@example.com', 'nobody'],
    ] as const) {
      const sending = deliverReports({ ...bench.context(), mailFrom }, createReportJob(), { only });
      await expect(sending).rejects.toMatchObject({ code: 'MAIL_ADDRESS_INVALID', kind: 'usage' });
    }
    expect(await listKeys(bench.store, '_flowdrop/reports/')).toEqual([]);
    await deliverReports(bench.context(), createReportJob(), { only: 'The Desk <DESK@example.com>' });
    expect(await bench.statuses(MONDAY)).toEqual({ 'desk@example.com': 'sent' });
  });

  it('are left to another worker that is mailing them, and mailed when it has been silent for a lease', async () => {
    await seal(MONDAY);
    const clock = createFakeClock({ waiting: [RENEWAL_MS] });
    await new Promise<void>((begun) => {
      const silent = sending(() => () => {
        begun();
        return new Promise<never>(() => {}); // As of a process that was killed: nothing comes after it.
      });
      void deliverReports({ ...silent, clock }, createReportJob());
    });
    const other = async () => await deliverReports(bench.context('elsewhere'), createReportJob());
    expect(await other()).toMatchObject([{ leftToOther: true, recipients: [] }]);
    expect(bench.clock.slept).toEqual([]);
    bench.clock.advance(16 * 60_000);
    expect(await other()).toMatchObject([{ leftToOther: false, recipients: [{ outcome: 'sent' }] }]);
    expect(bench.clock.slept).toEqual([LEASE_MS]);
  });

  it.each([5, -5])('are left to a worker at work by one whose clock is %d hours off', async (hours) => {
    await seal(MONDAY);
    const [working, looking] = [bench.context('working'), bench.context('looking')];
    const job = createReportJob('', 'a@example.com, b@example.com');
    let goOn: () => void = fail;
    const held = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    let work: Promise<unknown> | undefined;
    await new Promise<void>((begun) => {
      const slow = sending(
        (send) =>
          async (...mail) => {
            begun();
            await held;
            return await send(...mail);
          },
        working,
      );
      work = deliverReports(slow, job);
    });
    const findReceipt = async () => pickNewest(await listKeys(bench.store, '_flowdrop/reports/'))[0];
    const before = await findReceipt();
    const clock = {
      now: () => bench.clock.now() + hours * 3_600_000,
      // Time goes on for the other one too.
      sleep: async (ms: number, signal?: AbortSignal) => {
        if (ms === RENEWAL_MS) return await bench.clock.sleep(ms, signal);
        bench.clock.advance(RENEWAL_MS);
        await vi.waitFor(async () => expect(await findReceipt()).not.toBe(before));
      },
    };
    expect(await deliverReports({ ...looking, clock }, job)).toMatchObject([{ leftToOther: true, recipients: [] }]);
    goOn();
    await work;
    expect(await arrivedTo()).toEqual(['a@example.com', 'b@example.com']);
  });
});

describe('two workers', () => {
  const job = createReportJob('', 'a@example.com, b@example.com');
  const down = () => Promise.reject(new MailFault('settings', 'down', { hint: '' }));

  it.each([
    ['a report', async () => undefined, 'Flow'],
    [
      'what another left',
      async () =>
        await deliverReports(
          sending(() => down),
          job,
        ),
      'Flow',
    ],
    [
      'a correction',
      async (first: Manifest) => {
        await run(job);
        await seal(MONDAY, { supersedes: first, trades: OTHER_DAY });
      },
      'Correction',
    ],
  ])('that begin %s at the same moment mail everybody once', async (_, before, subject) => {
    await before(await seal(MONDAY));
    await bench.arrived();
    const workers = ['one', 'other'].map(async (name) => await deliverReports(bench.context(name), job));
    const deliveries = (await Promise.all(workers)).flat();
    expect(deliveries.map(({ leftToOther }) => leftToOther).toSorted()).toEqual([false, true]);
    const lines = await bench.arrived();
    expect(lines.map((line) => line.slice(0, `a@example.com ${subject}`.length))).toEqual([
      `a@example.com ${subject}`,
      `b@example.com ${subject}`,
    ]);
  });

  it('of which one died between its claim and its receipt: the other goes on when that is old', async () => {
    const first = await seal(MONDAY);
    await run();
    await seal(MONDAY, { supersedes: first, trades: OTHER_DAY });
    const store = faultStore(bench.store, dieAt(/^put /));
    await expect(
      deliverReports({ ...bench.context('one'), ledger: new Ledger(store, 'trades') }, createReportJob()),
    ).rejects.toThrow(Died);
    await bench.arrived();
    const other = async () => await deliverReports(bench.context('other'), createReportJob());
    expect(await other()).toMatchObject([{ leftToOther: true, recipients: [] }]);
    bench.clock.advance(16 * 60_000);
    expect(await other()).toMatchObject([{ leftToOther: false, recipients: [{ outcome: 'sent' }] }]);
    expect(await arrivedDates()).toEqual([`correction ${MONDAY}`]);
  });
});

describe('the store', () => {
  it.each([2, 3, 4])(
    'that loses version %i of the receipt, which it said to have, keeps nobody from the report',
    async (lost) => {
      await seal(MONDAY);
      const kept = new RegExp(`^putIfAbsent .*/receipt/v${lost}\\.json$`);
      const store = faultStore(bench.store, at(kept, answer(true), 1));
      const [delivery] = await run(createReportJob(), { ledger: new Ledger(store, 'trades') });
      expect(store.calls.filter((call) => kept.test(call))).toHaveLength(1);
      expect(delivery).toMatchObject({ leftToOther: false });
      expect(new Set(delivery?.recipients.map(({ outcome }) => outcome))).toEqual(new Set(['sent']));
      expect(await run()).toEqual([expect.objectContaining({ recipients: [] })]);
    },
  );

  it('has the page, the message and the model of each revision', async () => {
    const first = await seal(MONDAY);
    await run();
    await seal(MONDAY, { supersedes: first, trades: OTHER_DAY });
    await run();
    const keys = await listKeys(bench.store, '_flowdrop/reports/');
    const names = (revision: number) =>
      keys.filter((key) => key.includes(`/rev=${revision}/`)).map((key) => key.slice(key.lastIndexOf('.')));
    expect(names(1)).toEqual(['.eml', '.html', '.json']);
    expect(names(2)).toEqual(['.eml', '.html', '.json']);
    const read = async (end: string) =>
      (await readText(bench.store, keys.find((key) => key.endsWith(end)) ?? '')) ?? '';
    const html = await read('rev=1/report.html');
    // The full report, with its charts drawn in it and the queries that rebuild its tables.
    for (const part of ['<svg', 'Rebuild these numbers', 'sum(premium) AS total_premium']) expect(html).toContain(part);
    expect(html).not.toContain('cid:');
    const eml = await PostalMime.parse(await read('rev=1/report.eml'));
    const [mail] = await bench.mails();
    expect([eml.subject, eml.messageId, eml.text]).toEqual([mail?.subject, mail?.messageId, mail?.text]);
    expect(JSON.parse(await read('rev=1/report.json'))).toMatchObject([
      { title: 'trades', report: { kind: 'flow', headline: { total: 2050 }, drop: { revision: 1 } } },
    ]);
  });

  it('links a page only to the status page: what else it could link is not known where it is kept or sent', async () => {
    await seal(MONDAY);
    await run();
    await seal(TUESDAY);
    const job = createReportJob('', 'desk@example.com, { address: b@example.com, symbols: [QQQ] }');
    await run(job, { publicUrl: 'https://flow.example.com' });
    const linksOf = (html: string) => [...html.matchAll(/<a href="([^"#]+)">([^<]*)/g)].map((link) => link.slice(1));
    const pages = (await listKeys(bench.store, '_flowdrop/reports/')).filter((key) => key.endsWith('.html'));
    const kept = await Promise.all(pages.map(async (key) => linksOf((await readText(bench.store, key)) ?? '')));
    const toStatus = [['https://flow.example.com/', 'Status page']];
    expect(kept).toEqual([[], toStatus, toStatus]);
    const attached = (await bench.mails()).flatMap(({ attachments }) =>
      attachments.filter(({ filename }) => filename?.includes(TUESDAY)),
    );
    expect(attached).toHaveLength(1);
    for (const { content } of attached)
      expect(linksOf(Buffer.from(content as ArrayBuffer).toString())).toEqual(toStatus);
  });

  it('is linked at the status page where readers reach it, and attached to whoever has another edition', async () => {
    await seal(MONDAY);
    const job = createReportJob('', 'a@example.com, { address: b@example.com, symbols: [QQQ] }');
    const context = { ...bench.context(), publicUrl: 'https://flow.example.com/drops' };
    expect(await deliverReports(context, job)).toMatchObject([
      { recipients: [{ to: 'a@example.com' }, { to: 'b@example.com' }] },
    ]);
    const mails = await bench.mails();
    const ways = mails.map(({ text, attachments }) => [
      /^FULL REPORT: (.*)$/m.exec(text ?? '')?.[1],
      attachments.filter(({ mimeType }) => mimeType === 'text/html').length,
    ]);
    expect(ways.toSorted()).toEqual([
      [`attached, nightly-${MONDAY}-full-report.html`, 1],
      [expect.stringMatching(`^https://flow\\.example\\.com/drops/reports/nightly/${MONDAY}/flow-[0-9a-f]{8}/1$`), 0],
    ]);
  });
});

// Where no S3 server can be started: see `STORES`.
describe.skipIf(STORES[1]?.isMissing)('a link to the drop, on a real S3 server', () => {
  it('downloads the file of the mailed hash for anybody, and is in no log, receipt, model or result', async () => {
    const store = await (STORES[1]?.open('') ?? fail());
    const lines: string[] = [];
    const log = pino({ level: 'trace' }, { write: (line: string) => lines.push(line) });
    try {
      await sealDay(bench.engine, store, { date: MONDAY });
      const events: unknown[] = [];
      const context = { ...bench.context(), ...SHIPPED, log, onEvent: (event: unknown) => events.push(event) };
      const onS3 = { ...context, ledger: new Ledger(store, 'trades') };
      const job = createReportJob();
      const reports = job.reports.map((report) => ({ ...report, linkSeconds: 7200 }));
      const deliveries = await deliverReports(onS3, { ...job, reports });
      const [mail] = await bench.mails();
      const url = /^Download of the file: (\S+)$/m.exec(mail?.text ?? '')?.[1] ?? fail();
      expect(mail?.html).toContain(url.replaceAll('&', '&amp;'));
      const answer = await fetch(url);
      expect(answer.status).toBe(200);
      const hash = createHash('sha256').update(Buffer.from(await answer.arrayBuffer()));
      const sha256 = hash.digest('hex');
      const page = await fetch(/^FULL REPORT: (\S+)$/m.exec(mail?.text ?? '')?.[1] ?? fail());
      expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
      expect(await page.text()).toContain(`<b>SHA-256</b> ${sha256}`);
      expect(mail?.attachments.filter(({ mimeType }) => mimeType === 'text/html')).toEqual([]);
      const told = [JSON.stringify([deliveries, events]), ...lines];
      const keys = await listKeys(store, '_flowdrop/reports/');
      for (const key of keys.filter((one) => one.endsWith('.json'))) told.push((await readText(store, key)) ?? '');
      expect(told.length).toBeGreaterThan(2);
      for (const text of told) expect(text).not.toContain('X-Amz-');
    } finally {
      await store.close();
    }
  });
});

describe('a digest', () => {
  const digest = createReportJob('template: digest\ndatasets: [trades, index]');

  it('waits for every dataset of the date, and goes out when the last is sealed', async () => {
    await seal(MONDAY);
    expect(await run(digest)).toMatchObject([{ pending: true, recipients: [] }]);
    // Nor is one of which nothing is sealed mailed.
    expect(await run(createReportJob('template: digest\ndatasets: [index]'))).toMatchObject([{ pending: true }]);
    expect(await bench.arrived()).toEqual([]);
    await seal(MONDAY, { dataset: 'index' });
    await run(digest);
    await run(digest);
    const mails = await bench.mails();
    expect(mails).toHaveLength(1);
    expect(mails[0]?.text).not.toMatch(/pending/i);
  });

  it.each(['missing', 'empty', 'expired'] as const)('waits for no date that is %s, and says so', async (condition) => {
    await seal(MONDAY);
    const entries = [describeUnsealed(MONDAY, condition)];
    const ledger = new Ledger(bench.store, 'index');
    await ledger.writeConditions(entries, await ledger.conditions());
    await run(digest);
    const [mail] = await bench.mails();
    expect(mail?.text).toMatch(/index/);
    expect(mail?.text).toMatch(/not sealed|pending/i);
  });

  it('that is asked for by hand waits for nothing, and says which dataset is not sealed yet', async () => {
    await seal(MONDAY);
    await seal(MONDAY, { dataset: 'other' });
    await deliverReports(bench.context(), digest, { date: MONDAY });
    const [mail] = await bench.mails();
    expect(mail?.subject).toMatch(/digest/i);
    expect(mail?.text).toMatch(/index/);
    expect(mail?.text).toMatch(/pending/i);
  });

  it('of a restated day says that it is a correction, and what changed', async () => {
    const first = await seal(MONDAY);
    await seal(MONDAY, { dataset: 'index' });
    await run(digest);
    await seal(MONDAY, { supersedes: first, trades: OTHER_DAY });
    await run(digest, SHIPPED);
    const [, mail] = await bench.mails();
    expect(mail?.subject).toMatch(/^Correction: flow digest 2026-11-16/);
    expect(mail?.text).toMatch(/^CORRECTION: this digest replaces/m);
    expect(mail?.text).toMatch(/^trades: Premium +\$2\.05K +\$2\.50K$/m);
    expect(mail?.html).toContain('What changed');
  });
});

describe('a preview', () => {
  it('is the mail of the address asked for, with the watchlist and the time zone of that recipient', async () => {
    await seal(MONDAY);
    const quant = '{ address: quant@example.com, symbols: [QQQ], timezone: Asia/Tokyo }';
    const job = createReportJob('symbols: [SPY]', `desk@example.com, ${quant}`);
    const readAs = async (only: string) => {
      const edition = await previewReport(bench.context(), job, job.reports[0] ?? fail(), { only });
      const { to } = await PostalMime.parse(Buffer.from(edition?.eml ?? []));
      const watched = edition?.parts.flatMap((part) => ('report' in part ? part.report.watchlist : []));
      const isInTokyo = edition?.rendered.text.includes('GMT+9');
      return [to?.[0]?.address, watched?.map(({ symbol }) => symbol), isInTokyo];
    };
    expect(await readAs('Quant <QUANT@example.com>')).toEqual(['quant@example.com', ['QQQ'], true]);
    expect(await readAs('guest@example.com')).toEqual(['guest@example.com', ['SPY'], false]);
  });
});

const PUT_OF_DEFAULT = { id: '2', put_call: 'PUT', premium: 800, sentiment: 'BEARISH', strike: 590 };

function fail(): never {
  throw new Error('the job has no report');
}
