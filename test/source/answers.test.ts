/** Reading answers: the envelope of a success byte by byte, and what a person is told of a failure. What each leads to: `faults.test.ts`. */
import { describe, expect, test } from 'vitest';
import { readEnvelope } from '../../src/source/envelope.ts';
import { judgeFailure, judgeMalformed, parseRetryAfter } from '../../src/source/source-failure.ts';

const read = (text: string) => readEnvelope(Buffer.from(text));
const NESTED = '[{"a":"]}\\"","b":{"data":[1,[2]]},"c":"\\\\"}, {"a":"{\\"data\\":[","d":null}]';

describe('an envelope', () => {
  test.each([
    `{"status":"SUCCESS","data":${NESTED},"meta":{"x":[1,{"data":[{}]}]},"n":-1.5e3,"t":true}`,
    `{"meta":{"x":[1,{"data":[{}]}]},"n":-1.5e3,"data":${NESTED},"t":true,"status":"SUCCESS"}`,
    ` \r\n{ "t" : true , "d\\u0061ta" :\t${NESTED} , "n":-1.5e3,"status":"SUCCESS","meta":{"x":[1,{"data":[{}]}]} } \n`,
    `\uFEFF{"data":${NESTED},"n":-1.5e3,"t":true,"status":"SUCCESS","meta":{"x":[1,{"data":[{}]}]}}`,
  ])('in any order of keys gives the same rows and members: %s', (text) => {
    const envelope = read(text);
    expect(Buffer.from(envelope.data).toString()).toBe(NESTED);
    expect(envelope.rows).toBe(2);
    expect(envelope.firstRow).toEqual({ a: ']}"', b: { data: [1, [2]] }, c: '\\' });
    expect(envelope.members).toEqual({ status: 'SUCCESS', meta: { x: [1, { data: [{}] }] }, n: -1500, t: true });
  });

  test.each(['{"data":[]}', '{"data": [ \n ] }'])('may be empty: %s', (text) => {
    expect(read(text)).toMatchObject({ rows: 0, firstRow: undefined, members: {} });
  });

  test('cut at any byte is a fault, and so is one more closing byte', () => {
    const body = Buffer.from(`{"status":"SUCCESS","n":12,"data":${NESTED},"meta":{"entitlement":"ünï"}}`);
    expect(readEnvelope(body).rows).toBe(2);
    for (let end = 0; end < body.length; end += 1) {
      expect(() => readEnvelope(body.subarray(0, end)), `cut at ${end}`).toThrow(SyntaxError);
    }
  });

  const whole = '{"status":"SUCCESS","data":[{"a":1}]}';
  test.each([
    ['doubled', whole + whole],
    ['followed by anything', `${whole} x`],
    ['followed by a byte of zero', `${whole}\0`],
    ['an array', `[${whole}]`],
    ['a text', '"data"'],
    ['HTML', '<html>{"data":[]}</html>'],
    ['without data', '{"status":"SUCCESS"}'],
    ['with data twice', '{"data":[],"data":[]}'],
    ['with data twice, once null', '{"data":[],"data":null}'],
    ['with data that is no array', '{"data":{}}'],
    ['with rows that are no objects', '{"data":[1]}'],
    ['with rows that are arrays', '{"data":[[]]}'],
    ['with a comma after the last row', '{"data":[{},]}'],
    ['with a comma before the first row', '{"data":[,{}]}'],
    ['with no comma between rows', '{"data":[{}{}]}'],
    ['with a comma after the last member', '{"data":[],}'],
    ['with no comma between members', '{"data":[] "status":"SUCCESS"}'],
    ['with no colon', '{"data"[]}'],
    ['with a key that is no text', '{data:[]}'],
    ['with a value that is no JSON', '{"data":[],"x":undefined}'],
    ['with no value', '{"data":[],"x":}'],
  ])('that is %s is a fault that names the byte or the text', (_title, text) => {
    expect(() => read(text)).toThrow(SyntaxError);
  });
});

describe('a failed answer', () => {
  const error = (errorCode: string, more: object = {}) =>
    JSON.stringify({ status: 'ERROR', errorCode, errorMsg: 'said', ...more });

  test('a refused query shows code, reason and what was said, and no SQL', () => {
    const { fault } = judgeFailure(
      422,
      Buffer.from(error('INVALID_QUERY', { reason: 'TYPE_MISMATCH' })),
      undefined,
      'SELECT 7',
    );
    expect(fault.message).toBe('the API answered HTTP 422 INVALID_QUERY TYPE_MISMATCH: said');
    expect(fault.hint).toContain('flowdrop check --live');
    expect(fault.hint).not.toContain('SELECT 7');
  });

  test.each([
    ['TYPE_MISMATCH', 'substring(time, 1, 13)'],
    ['INVALID_AGGREGATION', 'sum(premium) AS total_premium'],
  ])('a query refused for %s shows what to write instead', (reason, advice) => {
    const { fault } = judgeFailure(422, Buffer.from(error('INVALID_QUERY', { reason })), undefined, 'SELECT 1');
    expect(fault.hint).toContain(advice);
  });

  test('a broken page is retried and shows the first 200 bytes, no more', () => {
    const { kind, fault } = judgeMalformed(Buffer.from('x'.repeat(5000)), new SyntaxError('why'));
    expect(kind).toBe('retry');
    expect(fault).toMatchObject({ code: 'ANSWER_MALFORMED', action: 'fail' });
    expect(fault.message).toContain(`"${'x'.repeat(200)}"`);
  });
});

test.each([
  ['7', 7000],
  [' 120 ', 120_000],
  ['0', 0],
  ['Fri, 20 Nov 2026 12:00:30 GMT', 30_000],
  ['Fri, 20 Nov 2026 11:00:00 GMT', 0],
  ['-5', undefined],
  ['soon', undefined],
  ['', undefined],
  [null, undefined],
])('Retry-After "%s" is %s ms', (header, expected) => {
  expect(parseRetryAfter(header, Date.parse('2026-11-20T12:00:00Z'))).toBe(expected);
});

describe('an answer that would fill the memory as values is refused while it is walked:', () => {
  test.each([
    [
      'a member beside the rows',
      '{"data":[],"meta":"',
      'x'.repeat(2 * 1024 ** 2),
      '"}',
      /at most 1048576 bytes beside "data"/,
    ],
    [
      'many members beside the rows',
      '{"data":[]',
      `,"a":"${'x'.repeat(1_000)}"`.repeat(2_000),
      '}',
      /at most 1048576 bytes beside "data"/,
    ],
    ['a row with many members', '{"data":[{"a":1', ',"a":1'.repeat(20_000), '}]}', /at most 10000 members of a row/],
    ['many tiny rows', '{"data":[{}', ',{}'.repeat(200_000), ']}', /at most 50000 rows at byte 300009/],
  ])('%s', (_, head, middle, tail, says) => {
    expect(() => readEnvelope(Buffer.from(head + middle + tail))).toThrow(says);
  });

  test('the value of a row', () => {
    const body = Buffer.concat([
      Buffer.from('{"data":[{"a":"'),
      Buffer.alloc(65 * 1024 ** 2, 'x'),
      Buffer.from('"}]}'),
    ]);
    expect(() => readEnvelope(body)).toThrow(/a value at byte 9 has 68157448 bytes/);
  });
});
