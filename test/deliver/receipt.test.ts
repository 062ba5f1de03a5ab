/** A damaged receipt, and the identity of a mail. Who has been mailed, and who has still to be: `deliver.slow.test.ts`. */
import { describe, expect, test } from 'vitest';
import { buildMessageId, openReceipt, openReceiptLog } from '../../src/deliver/receipt.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { useCleanups } from '../support/cleanups.ts';

const { folder } = useCleanups();
const REPORT = { report: 'flow', job: 'nightly-trades', date: '2026-11-19', revision: 1 };
const RECEIPT = openReceipt({ ...REPORT, worker: 'this one' }, undefined, false, true);

describe('a receipt', () => {
  test.each([
    '',
    '{',
    '[]',
    JSON.stringify({ ...RECEIPT, revision: 0 }),
    JSON.stringify({ ...RECEIPT, date: '2026-11-18' }),
    JSON.stringify({ ...RECEIPT, recipients: { a: { status: 'lost' } } }),
  ])('that reads %j is a fault: nobody is mailed on a guess', async (text) => {
    const store = await openDirectoryStore(await folder());
    const log = openReceiptLog(store, REPORT);
    await store.put(log.keyOf(1), { bytes: Buffer.from(text) });
    await expect(log.read()).rejects.toMatchObject({
      code: 'RECEIPT_INVALID',
      message: expect.stringMatching(/v1.json .* 2026-11-19/),
    });
  });
});

describe('a Message-ID', () => {
  test('is the same for the same mail, and has no recipient in it', () => {
    const id = buildMessageId(REPORT, 'desk@example.com', 'example.com');
    expect(id).toMatch(/^nightly-trades\.2026-11-19\.r1\.[0-9a-f]{32}@example\.com$/);
    expect(buildMessageId(REPORT, 'Desk@Example.com', 'example.com')).toBe(id);
  });

  test('differs for every part of the identity', () => {
    const others = [{}, { report: 'other' }, { job: 'other' }, { date: '2026-11-20' }, { revision: 2 }];
    const ids = others.map((change) => buildMessageId({ ...REPORT, ...change }, 'desk@example.com', 'example.com'));
    ids.push(buildMessageId(REPORT, 'other@example.com', 'example.com'));
    expect(new Set(ids).size).toBe(6);
  });

  test('is one token whatever the job is called', () => {
    const job = `a b\r\n<ü>/${'x'.repeat(500)}`;
    expect(buildMessageId({ ...REPORT, job }, 'desk@example.com', 'example.com')).toMatch(
      /^[A-Za-z0-9.-]{1,100}@example\.com$/,
    );
  });
});
