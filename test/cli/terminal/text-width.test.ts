/** Cells, cuts, lines, tables and colours of a terminal. */
import { describe, expect, it } from 'vitest';
import {
  createStyle,
  cutText,
  escapeText,
  formatTable,
  hangText,
  measureWidth,
} from '../../../src/cli/terminal/text.ts';

describe('the width of a text', () => {
  it.each([
    ['SPY', 3],
    ['日経', 4],
    ['한국', 4],
    ['é', 1],
    ['e\u0301', 1],
    ['👩‍💻', 2],
    ['⚠️', 2],
    ['\u001b[31mSPY\u001b[39m', 3],
    ['', 0],
  ])('%j is %i cells', (text, cells) => {
    expect(measureWidth(text)).toBe(cells);
  });

  it('is kept by a cut, which never halves a character', () => {
    expect(cutText('日経平均株価', 6)).toBe('日経…');
    expect(cutText('option', 6)).toBe('option');
    expect(cutText('options', 6)).toBe('optio…');
    expect(cutText('\u001b[31moptions\u001b[39m', 6)).toBe('\u001b[31moptio\u001b[39m…');
  });

  it('is kept by lines but for words that are longer, and what a text begins with stays', () => {
    expect(hangText('  -> make room, then start again', 16, 0)).toBe('  -> make room,\nthen start again');
    expect(hangText('see https://api.example.com/api/historical/sql now', 12, 0)).toBe(
      'see\nhttps://api.example.com/api/historical/sql\nnow',
    );
  });
});

it('a character that would act on the terminal is shown instead', () => {
  expect(escapeText('a\u001b[2Jb\r\u202Ec\n', '\n')).toBe('a\\u001b[2Jb\\r\\u202ec\n');
});

describe('a table', () => {
  const columns = [{ title: 'name' }, { title: 'rows', align: 'right' as const }, { title: 'note' }];

  it('is aligned whatever alphabet its cells are in, and no line ends in spaces', () => {
    const table = formatTable(columns, [
      ['日経', '1', ''],
      ['SPY', '1,000', 'x'],
    ]);
    expect(table).toBe('name   rows  note\n----  -----  ----\n日経      1\nSPY   1,000  x');
    expect(table).not.toMatch(/ $/m);
  });

  it('cuts its longest text to fit, and never a number', () => {
    const table = formatTable(columns, [['SPY', '1,234,567,890', 'a'.repeat(200)]], { width: 40 });
    const lines = table.split('\n');
    for (const line of lines) expect(measureWidth(line)).toBeLessThanOrEqual(40);
    expect(lines[2]).toContain('1,234,567,890');
    expect(lines[2]).toMatch(/a…$/);
  });

  it('of many rows needs no more stack than one of few', () => {
    const rows = Array.from({ length: 150_000 }, (_, index) => ['x', String(index), '']);
    expect(formatTable(columns, rows).split('\n')).toHaveLength(150_002);
  });
});

it('colours that are off change no text', () => {
  expect(createStyle(false).red('x')).toBe('x');
  expect(createStyle(true).red('x')).toBe('\u001b[31mx\u001b[39m');
});
