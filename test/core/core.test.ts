/** The leaf modules: numbers for people, redaction in logs, errors. Atomic files are tested with stores. */
import { describe, expect, test } from 'vitest';
import { describeError } from '../../src/core/errors.ts';
import { createLog } from '../../src/core/log.ts';
import { createRedactor } from '../../src/core/redact.ts';
import {
  formatBytes,
  formatCount,
  formatDecimal,
  formatDollars,
  formatDuration,
  formatPercent,
  formatSignedDollars,
} from '../../src/core/units.ts';

test.each([
  [0, '$0.00'],
  [0.5, '$0.50'],
  [9.999, '$10.0'],
  [99.97, '$100'],
  [950, '$950'],
  [999.4, '$999'],
  [999.6, '$1.00K'],
  [1_239_999_999, '$1.24B'],
  [-310_000_000, '−$310M'],
  [999_999_999, '$1.00B'],
  [2.5e15, '$2500T'],
  [Number.NaN, 'n/a'],
  [Number.POSITIVE_INFINITY, 'n/a'],
])('%d dollars read %s', (value, text) => {
  expect(formatDollars(value)).toBe(text);
});

test('signed dollars say their direction, and nothing has none', () => {
  expect([120e6, -310e6, 0].map(formatSignedDollars)).toEqual(['+$120M', '−$310M', '$0.00']);
});

test.each([
  [0, '0 ms'],
  [850, '850 ms'],
  [999.6, '1.0 s'],
  [12_500, '12.5 s'],
  [59_960, '1 min 0 s'],
  [119_800, '2 min 0 s'],
  [200_000, '3 min 20 s'],
  [3_599_900, '1 h 0 min'],
  [7_500_000, '2 h 5 min'],
])('%d ms read %s', (ms, text) => {
  expect(formatDuration(ms)).toBe(text);
});

test.each([
  [0, '0 B'],
  [999, '999 B'],
  [1000, '1.0 kB'],
  [7_200_000, '7.2 MB'],
  [999_960, '1.0 MB'],
  [3.2e15, '3200.0 TB'],
])('%d bytes read %s', (size, text) => {
  expect(formatBytes(size)).toBe(text);
});

test('counts, decimals and shares are grouped and rounded the same everywhere', () => {
  expect(formatCount(2295)).toBe('2,295');
  expect(formatCount(12_345_678n)).toBe('12,345,678');
  expect(formatCount(-1234)).toBe('-1,234');
  expect(formatDecimal(4697.2402)).toBe('4,697.24');
  expect(formatDecimal(1_234_567.891, 0)).toBe('1,234,568');
  expect(formatDecimal(null)).toBe('n/a');
  expect(formatPercent(0.6213)).toBe('62.1%');
  expect(formatPercent(0 / 0)).toBe('n/a');
});

describe('a log', () => {
  const key = 'apikey_a"b\\c d';

  function logInto(pretty: boolean) {
    const lines: string[] = [];
    const write = (line: string) => void lines.push(line.replace(/^\[[\d:]+\] /, ''));
    return { lines, write, log: createLog({ level: 'info', pretty, secrets: [key, '', 'abc'], run: 'r-1', write }) };
  }

  test.each([false, true])('never shows a secret, whatever field it travels in (pretty: %s)', (pretty) => {
    const { lines, log } = logInto(pretty);
    log.info(
      { body: { deep: [key] }, url: `https://x/?k=${encodeURIComponent(key)}`, error: new Error(key) },
      `said ${key}`,
    );
    const text = lines.join('');
    expect(text).toContain('[secret]');
    expect(text).not.toContain('apikey_a');
  });

  test('drops lines below its level and writes one JSON object a line', () => {
    const { lines, log } = logInto(false);
    log.debug('quiet');
    log.info({ event: 'x' }, 'loud');
    expect(lines).toHaveLength(1);
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({ event: 'x', msg: 'loud' });
  });

  test('is for people one line each, which says nothing twice and lets nothing move the cursor', () => {
    const { lines, write, ...own } = logInto(true);
    const log = own.log.child({ job: 'nightly' });
    log.warn({ event: 'retry', attempt: 2, reason: 'HTTP\n 429' }, 'tried again: HTTP\n 429');
    log.info({ event: 'request', rows: 7 });
    log.error({ event: 'x', target: 'a\u001b[2J' }, 'said \u001b[2Jthis');
    const apart = createLog({ level: 'info', pretty: true, secrets: [], write });
    apart.info({ event: 'started', job: 'nightly', run: 'r-2' }, 'nightly: started');
    expect(lines).toEqual([
      'WARN: tried again: HTTP  429 {"attempt":2}\n',
      'INFO: request {"rows":7}\n',
      'ERROR: said  [2Jthis {"target":"a\\u001b[2J"}\n',
      'INFO: nightly: started {"run":"r-2"}\n',
    ]);
  });

  test('masks the longest secret first and leaves words shorter than a secret alone', () => {
    const redact = createRedactor(['secret-key', 'secret-key-longer', 'abc']);
    expect(redact('secret-key-longer secret-key abc')).toBe('[secret] [secret] abc');
  });
});

describe('errors', () => {
  test('are described with their causes, outermost first, and each once', () => {
    const cause = new Error('disk full');
    expect(describeError(new Error('cannot write', { cause }))).toBe('cannot write: disk full');
    expect(describeError(new Error('cannot write: disk full', { cause }))).toBe('cannot write: disk full');
    expect(describeError('plain')).toBe('plain');
  });

  test('whose causes go in a circle are described all the same', () => {
    const a = new Error('a');
    a.cause = new Error('b', { cause: a });
    expect(describeError(a)).toBe('a: b');
  });
});
