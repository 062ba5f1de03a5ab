/** The receipt: who has been mailed, and who has still to be. */
import { describe, expect, test } from 'vitest';
import {
  buildMessageId,
  countRecipients,
  createReceipt,
  encodeReceipt,
  isLeasedToOther,
  parseReceipt,
  pendingRecipients,
  type RecipientReceipt,
  recordRecipient,
} from '../../src/mail/receipt.ts';

const REPORT = { report: 'flow', job: 'nightly-trades', date: '2026-11-19', revision: 1 };
const IDENTITY = { ...REPORT, worker: 'this one' };
const MAIL = { ...REPORT, recipient: 'desk@example.com', domain: 'example.com' };

function buildEntry(status: RecipientReceipt['status']): RecipientReceipt {
  return { status, at: '2026-11-19T22:30:00.000Z', message_id: 'x@example.com', detail: '' };
}

describe('a receipt', () => {
  test('is read back as it was written', () => {
    const receipt = recordRecipient(createReceipt(IDENTITY), 'Desk@Example.com ', buildEntry('sent'));
    expect(parseReceipt(encodeReceipt(receipt))).toEqual({
      version: 1,
      ...IDENTITY,
      recipients: { 'desk@example.com': buildEntry('sent') },
    });
  });

  test('is not changed by recording into it', () => {
    const receipt = createReceipt(IDENTITY);
    recordRecipient(receipt, 'desk@example.com', buildEntry('sent'));
    expect(receipt.recipients).toEqual({});
  });

  test.each([
    '',
    '{',
    '[]',
    '{"version":2}',
    JSON.stringify({ ...createReceipt(IDENTITY), recipients: { a: { status: 'lost' } } }),
  ])('that reads %j is a fault: nobody is mailed on a guess', (text) => {
    expect(() => parseReceipt(Buffer.from(text))).toThrow(
      expect.objectContaining({ code: 'RECEIPT_INVALID', hint: expect.any(String) }),
    );
  });
});

describe('pending recipients', () => {
  const addresses = ['sent@x.com', 'refused@x.com', 'sending@x.com', 'new@x.com'];
  let receipt = createReceipt(IDENTITY);
  for (const status of ['sent', 'refused', 'sending'] as const) {
    receipt = recordRecipient(receipt, `${status}@x.com`, buildEntry(status));
  }

  test('are those neither sent nor refused; a send whose end is unknown is repeated', () => {
    expect(pendingRecipients(receipt, 1, addresses)).toEqual(['sending@x.com', 'new@x.com']);
  });

  test('are all of them when there is no receipt, or one of another revision', () => {
    expect(pendingRecipients(undefined, 1, addresses)).toEqual(addresses);
    expect(pendingRecipients(receipt, 2, addresses)).toEqual(addresses);
  });

  test('have each person once, in whatever case the address is written', () => {
    expect(pendingRecipients(receipt, 1, ['New@X.com', 'new@x.com', 'SENT@x.com'])).toEqual(['New@X.com']);
  });

  test('are not found in the prototype of the record', () => {
    expect(pendingRecipients(receipt, 1, ['constructor'])).toEqual(['constructor']);
  });
});

describe('a Message-ID', () => {
  test('is the same for the same mail, and has no recipient in it', () => {
    const id = buildMessageId(MAIL);
    expect(id).toMatch(/^nightly-trades\.2026-11-19\.r1\.[0-9a-f]{32}@example\.com$/);
    expect(buildMessageId({ ...MAIL, recipient: 'Desk@Example.com' })).toBe(id);
  });

  test('differs for every part of the identity', () => {
    const others = [
      { report: 'other' },
      { job: 'other' },
      { date: '2026-11-20' },
      { revision: 2 },
      { recipient: 'other@example.com' },
    ];
    const ids = [MAIL, ...others.map((change) => ({ ...MAIL, ...change }))].map(buildMessageId);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test('is one token whatever the job is called', () => {
    expect(buildMessageId({ ...MAIL, job: `a b\r\n<ü>/${'x'.repeat(500)}` })).toMatch(
      /^[A-Za-z0-9.-]{1,100}@example\.com$/,
    );
  });
});

describe('a lease', () => {
  const at = Date.parse('2026-11-19T22:30:00.000Z');
  const sending = recordRecipient(createReceipt({ ...IDENTITY, worker: 'other' }), 'a@x.com', buildEntry('sending'));
  const cases = [
    { who: 'another worker in the middle of a mail', receipt: sending, revision: 1, now: at + 60_000, leased: true },
    { who: 'a worker that died long ago', receipt: sending, revision: 1, now: at + 3_600_000, leased: false },
    { who: 'another revision', receipt: sending, revision: 2, now: at, leased: false },
    { who: 'this worker', receipt: { ...sending, worker: 'this one' }, revision: 1, now: at, leased: false },
    { who: 'nobody', receipt: undefined, revision: 1, now: at, leased: false },
  ];
  test.each(cases)('of $who holds: $leased', ({ receipt, revision, now, leased }) => {
    expect(isLeasedToOther(receipt, revision, 'this one', now)).toBe(leased);
  });

  test('counts are of one revision and one status', () => {
    expect(countRecipients(sending, 1, 'sending')).toBe(1);
    expect(countRecipients(sending, 1, 'sent')).toBe(0);
    expect(countRecipients(sending, 2, 'sending')).toBe(0);
  });
});
