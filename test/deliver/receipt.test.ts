/** The receipt: who has been mailed, and who has still to be. */
import { describe, expect, test } from 'vitest';
import {
  buildMessageId,
  claimRecipients,
  findMailedBefore,
  isKnownRecipient,
  openReceipt,
  openReceiptLog,
  pendingRecipients,
  type RecipientStatus,
  recordRecipient,
} from '../../src/deliver/receipt.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { useCleanups } from '../support/cleanups.ts';

const { folder } = useCleanups();
const REPORT = { report: 'flow', job: 'nightly-trades', date: '2026-11-19', revision: 1 };
const IDENTITY = { ...REPORT, worker: 'this one' };
const createReceipt = (identity: typeof IDENTITY) => openReceipt(identity, undefined, false);

function buildEntry(status: RecipientStatus) {
  return { status, at: '2026-11-19T22:30:00.000Z', message_id: 'x@example.com', detail: '' };
}

describe('a receipt', () => {
  test.each([
    '',
    '{',
    '[]',
    JSON.stringify({ ...createReceipt(IDENTITY), revision: 0 }),
    JSON.stringify({ ...createReceipt(IDENTITY), date: '2026-11-18' }),
    JSON.stringify({ ...createReceipt(IDENTITY), recipients: { a: { status: 'lost' } } }),
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

describe('the receipt of the next revision', () => {
  let first = openReceipt(IDENTITY, undefined, false);
  for (const status of ['sent', 'failed', 'skipped'] as const)
    first = recordRecipient(first, `${status}@x.com`, buildEntry(status));
  const second = openReceipt({ ...IDENTITY, revision: 2 }, first, false);

  test('owes those who were not mailed the one before, and knows who was', () => {
    expect(Object.entries(second.recipients).map(([key, { status }]) => [key, status])).toEqual([
      ['failed@x.com', 'failed'],
      ['skipped@x.com', 'failed'],
    ]);
    expect(findMailedBefore(second, 'Sent@x.com')).toBe(1);
    for (const address of ['failed@x.com', 'skipped@x.com']) expect(findMailedBefore(second, address)).toBeUndefined();
  });

  test('remembers the latest revision that a person was mailed, also over one that was skipped', () => {
    const skipped = recordRecipient(second, 'sent@x.com', buildEntry('skipped'));
    const third = openReceipt({ ...IDENTITY, revision: 3 }, skipped, false);
    expect(findMailedBefore(third, 'sent@x.com')).toBe(1);
    const sent = recordRecipient(second, 'sent@x.com', buildEntry('sent'));
    expect(findMailedBefore(openReceipt({ ...IDENTITY, revision: 3 }, sent, false), 'sent@x.com')).toBe(2);
  });

  test('knows those who had to do with it, and nobody else', () => {
    expect(isKnownRecipient(second, 'SENT@x.com')).toBe(true);
    expect(isKnownRecipient(first, 'skipped@x.com')).toBe(true);
    expect(isKnownRecipient(second, 'new@x.com')).toBe(false);
  });

  test('is taken over with everything in it when the revision is the same', () => {
    const other = openReceipt({ ...IDENTITY, worker: 'other' }, first, true);
    expect(other).toEqual({ ...first, worker: 'other' });
  });

  test('is one by hand until a run has to do with it, and then one of a run for good', () => {
    const byHand = openReceipt(IDENTITY, undefined, true);
    expect(byHand.by_hand).toBe(true);
    for (const revision of [1, 2]) {
      expect(openReceipt({ ...IDENTITY, revision }, byHand, true).by_hand).toBe(true);
      expect(openReceipt({ ...IDENTITY, revision }, byHand, false).by_hand).toBeUndefined();
      expect(openReceipt({ ...IDENTITY, revision }, first, true).by_hand).toBeUndefined();
    }
  });
});

describe('pending recipients', () => {
  const STATUSES = ['sent', 'refused', 'sending', 'waiting', 'failed', 'skipped'] as const;
  const addresses = [...STATUSES.map((status) => `${status}@x.com`), 'new@x.com'];
  let receipt = createReceipt(IDENTITY);
  for (const status of STATUSES) {
    receipt = recordRecipient(receipt, `${status}@x.com`, buildEntry(status));
  }

  test('are those without an end; a send whose end is unknown is repeated', () => {
    expect(pendingRecipients(receipt, 1, addresses)).toEqual([
      'sending@x.com',
      'waiting@x.com',
      'failed@x.com',
      'new@x.com',
    ]);
  });

  test('are all of them when there is no receipt, or one of another revision', () => {
    expect(pendingRecipients(undefined, 1, addresses)).toEqual(addresses);
    expect(pendingRecipients(receipt, 2, addresses)).toEqual(addresses);
  });

  test('have each person once, in whatever case the address is written', () => {
    expect(pendingRecipients(receipt, 1, ['New@X.com', 'new@x.com', 'SENT@x.com'])).toEqual(['New@X.com']);
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

test('a claim makes people wait, and leaves a message whose end is not known as it is', () => {
  const at = '2026-11-20T08:00:00.000Z';
  const begun = recordRecipient(createReceipt(IDENTITY), 'begun@x.com', buildEntry('sending'));
  const failed = recordRecipient(begun, 'failed@x.com', buildEntry('failed'));
  expect(claimRecipients(failed, ['Begun@x.com', 'failed@x.com', 'new@x.com'], at).recipients).toEqual({
    'begun@x.com': { ...buildEntry('sending'), at },
    'failed@x.com': { status: 'waiting', at, message_id: '', detail: '' },
    'new@x.com': { status: 'waiting', at, message_id: '', detail: '' },
  });
});
