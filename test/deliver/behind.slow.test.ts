/**
 * Workers that fall behind, and requests that something in between sends twice: nobody is mailed what a later revision has
 * replaced, and a report is not left to nobody. Workers that sleep after they took their turn are in `deliver.slow.test.ts`.
 */

import { copyFile, mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { deliverReports } from '../../src/deliver/deliver.ts';
import { manifestKey } from '../../src/ledger/layout.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import type { Store } from '../../src/store/store.ts';
import { answer, at, faultStore, repeat } from '../support/fault-store.ts';
import { createReportJob, type DeliveryBench, openDeliveryBench } from './bench.ts';
import { sealDay } from './sealed-day.ts';

const DATE = '2026-11-19';
const OTHER_DAY = [{ premium: 2500, put_call: 'PUT', sentiment: 'BEARISH' }];
const key = manifestKey('trades', DATE);

let bench: DeliveryBench;
beforeEach(async () => {
  bench = await openDeliveryBench();
});
afterEach(async () => await bench.close());

const run = async (worker: string, store: Store = bench.store) =>
  await deliverReports({ ...bench.context(worker), ledger: new Ledger(store, 'trades') }, createReportJob());

describe('a worker that slept since it read the manifest', () => {
  /** Sees the first revision at its first look, and the store as it is at the next. */
  const sleeper = async () =>
    faultStore(bench.store, at(new RegExp(`^get ${key}`), answer(await bench.store.get(key)), 1));

  it('mails nobody when another one has mailed the next revision', async () => {
    const first = await sealDay(bench.engine, bench.store, { date: DATE });
    const store = await sleeper();
    await run('sleeps');
    await sealDay(bench.engine, bench.store, { date: DATE, trades: OTHER_DAY, supersedes: first });
    await run('works');
    expect(await bench.arrived()).toHaveLength(2);
    expect(await run('sleeps', store)).toMatchObject([{ revision: 1, recipients: [], leftToOther: true }]);
    expect(await bench.arrived()).toEqual([]);
    // Nor does the next run: the receipt is still that of the second revision.
    expect(await run('works')).toMatchObject([{ revision: 2, recipients: [], alreadySent: 1 }]);
  });

  it('and a date that was exported anew are told apart: its ledger goes on above the history', async () => {
    const first = await sealDay(bench.engine, bench.store, { date: DATE });
    await sealDay(bench.engine, bench.store, { date: DATE, trades: OTHER_DAY, supersedes: first });
    await run('works');
    await bench.store.remove(key);
    await sealDay(bench.engine, bench.store, { date: DATE });
    expect(await run('works')).toMatchObject([{ revision: 2, leftToOther: false, recipients: [], alreadySent: 1 }]);
  });
});

it('a claim that was sent twice, and answered as the second, is its own: the report is mailed', async () => {
  await sealDay(bench.engine, bench.store, { date: DATE });
  const twice = faultStore(bench.store, at(/^putIfAbsent /, repeat));
  expect(await run('works', twice)).toMatchObject([{ leftToOther: false, recipients: [{ outcome: 'sent' }] }]);
  expect(await bench.arrived()).toHaveLength(1);
});

it('a worker with a copy of the state directory is another one: it leaves alone whoever mails at the moment', async () => {
  await sealDay(bench.engine, bench.store, { date: '2026-11-18' });
  await run('first');
  const [first, copy] = [bench.context('first'), bench.context('copy')];
  await mkdir(dirname(copy.state.worker), { recursive: true });
  await copyFile(first.state.worker, copy.state.worker);
  await sealDay(bench.engine, bench.store, { date: DATE });
  const deliveries: unknown[] = [];
  // The mail has left, and its end is not written down yet.
  const mailer: typeof first.mailer = {
    ...first.mailer,
    send: async (...args) => {
      const sent = await first.mailer.send(...args);
      deliveries.push(...(await deliverReports(copy, createReportJob())));
      return sent;
    },
  };
  await deliverReports({ ...first, mailer }, createReportJob());
  expect(deliveries).toMatchObject([{ date: DATE, leftToOther: true, recipients: [] }]);
  expect((await bench.arrived()).filter((line) => line.includes(DATE))).toHaveLength(1);
});
