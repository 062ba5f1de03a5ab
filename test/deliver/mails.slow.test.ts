/**
 * What delivery makes of a mail server that fails, in real conversations: who is tried again in the same run, who by the
 * next one, and that nobody gets a mail twice unless its fate was unknown. What each failure means is in `test/mail`; who is
 * refused for good, and a run without a second try, are in `test/flow/bad-input.slow.test.ts`.
 */
import type { SMTPServerOptions } from 'smtp-server';
import { afterEach, describe, expect, it } from 'vitest';
import { deliverReports } from '../../src/deliver/deliver.ts';
import { RENEWAL_MS } from '../../src/deliver/receipt.ts';
import { buildReply } from '../mail/smtp-receiver.ts';
import { createReportJob, type DeliveryBench, openDeliveryBench } from './bench.ts';
import { sealDay } from './sealed-day.ts';

const DATE = '2026-11-19';
const [A, B, C] = ['a@example.com', 'b@example.com', 'c@example.com'] as const;
const job = createReportJob('', [A, B, C].join(', '));

let bench: DeliveryBench;
afterEach(async () => await bench.close());

async function open(...options: Parameters<typeof openDeliveryBench>): Promise<void> {
  bench = await openDeliveryBench(...options);
  await sealDay(bench.engine, bench.store, { date: DATE });
}

/** @returns outcomes by recipient */
async function run(): Promise<Record<string, string>> {
  const [delivery] = await deliverReports(bench.context(), job);
  return Object.fromEntries((delivery?.recipients ?? []).map(({ to, outcome }) => [to, outcome]));
}

const received = () => bench.receiver.messages.map(({ to }) => to);

/** Answers what the list says to each recipient's tries, then yes. */
function refuse(replies: Readonly<Record<string, readonly number[]>>): SMTPServerOptions {
  const tries = new Map<string, number>();
  return {
    onRcptTo({ address }, _session, done) {
      const nth = tries.get(address) ?? 0;
      tries.set(address, nth + 1);
      const reply = replies[address]?.[nth];
      done(reply === undefined ? null : buildReply(reply, 'not now'));
    },
  };
}

describe('a recipient whom the server', () => {
  it('refuses for now is tried again after the others, with a pause, and gets one mail', async () => {
    await open(refuse({ [A]: [450, 451] }));
    expect(await run()).toEqual({ [A]: 'sent', [B]: 'sent', [C]: 'sent' });
    expect(received()).toEqual([B, C, A]);
    expect(bench.clock.slept).toHaveLength(2);
  });

  it('refuses for now in every try is left to the next run', async () => {
    let isPuttingOff = true;
    await open({
      onRcptTo: ({ address }, _session, done) =>
        done(isPuttingOff && address === B ? buildReply(450, 'not now') : null),
    });
    expect(await run()).toEqual({ [A]: 'sent', [B]: 'failed', [C]: 'sent' });
    expect(await bench.statuses(DATE)).toEqual({ [A]: 'sent', [B]: 'failed', [C]: 'sent' });
    isPuttingOff = false;
    expect(await run()).toEqual({ [B]: 'sent' });
    expect(received()).toEqual([A, C, B]);
  });
});

describe('a server that', () => {
  it('is too busy to greet is asked again, and everybody gets one mail', async () => {
    let greetings = 0;
    await open({
      onConnect(_session, done) {
        greetings += 1;
        done(greetings <= 2 ? buildReply(421, 'too busy') : undefined);
      },
    });
    expect(await run()).toEqual({ [A]: 'sent', [B]: 'sent', [C]: 'sent' });
    expect(received().toSorted()).toEqual([A, B, C]);
  });

  it('is not there is waited for as long as a run may, and the next run mails everybody', async () => {
    let isAway = true;
    await open({ onConnect: (_session, done) => done(isAway ? buildReply(421, 'away') : undefined) });
    expect(await run()).toEqual({ [A]: 'failed', [B]: 'failed', [C]: 'failed' });
    const waited = bench.clock.slept.reduce((sum, ms) => sum + ms, 0);
    expect(waited).toBeLessThanOrEqual(600_000);
    expect(waited).toBeGreaterThan(600_000 - 1_000);
    // Fourfold up to a cap, which the jitter never exceeds.
    for (const [at, longest] of [5_000, 20_000, 80_000, 120_000, 120_000].entries()) {
      expect(bench.clock.slept[at]).toBeGreaterThanOrEqual(longest / 2);
      expect(bench.clock.slept[at]).toBeLessThanOrEqual(longest);
    }
    expect(await bench.statuses(DATE)).toEqual({ [A]: 'failed', [B]: 'failed', [C]: 'failed' });
    isAway = false;
    expect(await run()).toEqual({ [A]: 'sent', [B]: 'sent', [C]: 'sent' });
    expect(received()).toEqual([A, B, C]);
  });

  it.each([
    ['hangs up after the message', () => bench.receiver.drop()],
    ['never answers to the message', () => undefined],
  ])('%s may have it: the run leaves it alone, the next sends it under the same Message-ID', async (_how, end) => {
    let isSilent = true;
    await open({}, 'none', (to) => {
      if (to !== A || !isSilent) return true;
      isSilent = false;
      end();
      return false;
    });
    expect(await run()).toEqual({ [A]: 'failed', [B]: 'sent', [C]: 'sent' });
    expect(received()).toEqual([A, B, C]);
    expect(await bench.statuses(DATE)).toEqual({ [A]: 'sending', [B]: 'sent', [C]: 'sent' });
    expect(await run()).toEqual({ [A]: 'sent' });
    expect(received()).toEqual([A, B, C, A]);
    const ids = (await bench.mails()).map(({ messageId }) => messageId);
    expect(ids[3]).toBe(ids[0]);
    expect(new Set(ids).size).toBe(3);
  });

  it('offers no encryption where it is required is sent nothing, and not asked again', async () => {
    await open({}, 'required');
    expect(await run()).toEqual({ [A]: 'failed', [B]: 'failed', [C]: 'failed' });
    expect(bench.receiver.connections()).toBe(1);
    expect(bench.clock.slept).toEqual([]);
    expect(received()).toEqual([]);
  });
});

it('the pause before a retry ends when the run is stopped', async () => {
  await open(refuse({ [A]: [450] }));
  const stop = new AbortController();
  const context = { ...bench.context(), signal: stop.signal };
  const clock = {
    ...context.clock,
    sleep: async (ms: number, signal?: AbortSignal) => {
      if (ms !== RENEWAL_MS) stop.abort();
      await context.clock.sleep(ms, signal);
    },
  };
  await expect(deliverReports({ ...context, clock }, job)).rejects.toMatchObject({ code: 'INTERRUPTED' });
  expect(received()).toEqual([B, C]);
});
