/** The receipt as a file, and Message-IDs. Who is mailed, and who has still to be: `deliver/deliver.slow.test.ts`. */
import { describe, expect, test } from 'vitest';
import {
  buildMessageId,
  findMailedBefore,
  openReceipt,
  parseReceipt,
  pendingRecipients,
} from '../../src/mail/receipt.ts';

const REPORT = { report: 'flow', job: 'nightly-trades', date: '2026-11-19', revision: 1 };
const IDENTITY = { ...REPORT, worker: 'this one' };
const createReceipt = (identity: typeof IDENTITY) => openReceipt(identity, undefined, false);
const AT = { job: 'nightly-trades', date: '2026-11-19', where: 'file:///store/receipt.json' };
const MAIL = { ...REPORT, recipient: 'desk@example.com', domain: 'example.com' };

describe('a receipt', () => {
  test.each([
    '',
    '{',
    '[]',
    JSON.stringify({ ...createReceipt(IDENTITY), revision: 0 }),
    JSON.stringify({ ...createReceipt(IDENTITY), date: '2026-11-18' }),
    JSON.stringify({ ...createReceipt(IDENTITY), recipients: { a: { status: 'lost' } } }),
  ])('that reads %j is a fault: nobody is mailed on a guess', (text) => {
    expect(() => parseReceipt(Buffer.from(text), AT)).toThrow(
      expect.objectContaining({
        code: 'RECEIPT_INVALID',
        message: expect.stringMatching(/receipt.json .* 2026-11-19/),
      }),
    );
  });
});

test('a recipient is not found in the prototype of the record', () => {
  expect(pendingRecipients(createReceipt(IDENTITY), 1, ['constructor'])).toEqual(['constructor']);
  expect(findMailedBefore(createReceipt(IDENTITY), 'constructor')).toBeUndefined();
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
