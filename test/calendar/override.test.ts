/** The operator's override: what its file may say, how it is refused, and that it goes before the rules everywhere. */
import { describe, expect, test } from 'vitest';
import { parseCalendarOverride } from '../../src/calendar/override.ts';
import {
  closeSecond,
  isHalfDay,
  isSession,
  listSessions,
  NO_OVERRIDE,
  previousSessions,
  sessionCloseSecond,
} from '../../src/calendar/session.ts';
import { formatSecond } from '../../src/calendar/wall-clock.ts';

const TEXT = `# what the exchange has proclaimed since
closed: [2027-01-15]
early_close:
  - 2027-07-02   # the Friday before the holiday on Monday
  - 2027-12-24
open:
  - 2027-05-31
  - 2027-11-26
`;

function refusal(text: string): { readonly code: string; readonly kind: string; readonly lines: readonly string[] } {
  try {
    parseCalendarOverride('calendar.yaml', text);
  } catch (error) {
    const { code, kind, message } = error as { code: string; kind: string; message: string };
    return { code, kind, lines: message.split('\n') };
  }
  throw new Error('the file was accepted');
}

describe('an override', () => {
  const override = parseCalendarOverride('calendar.yaml', TEXT);

  test.each([
    { date: '2027-01-15', byRule: '16:15:00', overridden: undefined },
    { date: '2027-07-02', byRule: '16:15:00', overridden: '13:15:00' },
    { date: '2027-12-24', byRule: undefined, overridden: '13:15:00' },
    { date: '2027-05-31', byRule: undefined, overridden: '16:15:00' },
    { date: '2027-11-26', byRule: '13:15:00', overridden: '16:15:00' },
    { date: '2027-11-24', byRule: '16:15:00', overridden: '16:15:00' },
  ])('makes the last close of $date $overridden, where the rules say $byRule', ({ date, byRule, overridden }) => {
    const closeOf = (changes = NO_OVERRIDE) =>
      isSession(date, changes) ? formatSecond(sessionCloseSecond(date, changes)) : undefined;
    expect(closeOf()).toBe(byRule);
    expect(closeOf(override)).toBe(overridden);
  });

  test('is heard by every function of the calendar', () => {
    expect(isHalfDay('2027-07-02', override)).toBe(true);
    expect(formatSecond(closeSecond('2027-07-02', 'equity', override))).toBe('13:00:00');
    expect(listSessions('2027-05-28', '2027-05-31', override)).toEqual(['2027-05-28', '2027-05-31']);
    expect(previousSessions('2027-01-19', 2, override)).toEqual(['2027-01-14', '2027-01-19']);
    expect(listSessions('2027-01-14', '2027-01-19', override)).toEqual(['2027-01-14', '2027-01-19']);
  });

  test('says the same in JSON', () => {
    const json =
      '{"closed":["2027-01-15"],"early_close":["2027-07-02","2027-12-24"],"open":["2027-05-31","2027-11-26"]}';
    expect(parseCalendarOverride('calendar.json', json)).toEqual(override);
  });

  test.each(['', '# nothing yet\n', 'closed:\nopen: []\n'])('of no dates (%j) leaves the rules as they are', (text) => {
    expect(parseCalendarOverride('calendar.yaml', text)).toEqual(NO_OVERRIDE);
  });

  test('that says what holds already is accepted', () => {
    const text = 'closed: [2026-12-25]\nearly_close: [2026-12-24]';
    expect(() => parseCalendarOverride('calendar.yaml', text)).not.toThrow();
  });
});

describe('an override file is refused', () => {
  test('with every fault it has, each with its line, what came and what is allowed', () => {
    const { code, kind, lines } = refusal(`closed:
  - 2027-02-30
  - 2027-03-01
earlyclose: [2027-07-02]
open:
  - 2027-03-01
  - 2027-03-06
  - [2027-03-08]
early_close: 2027-07-02
`);
    expect({ code, kind }).toEqual({ code: 'CALENDAR_INVALID', kind: 'usage' });
    expect(lines).toEqual([
      'calendar.yaml:2: closed.0: got "2027-02-30"; it must be an existing date, YYYY-MM-DD',
      'calendar.yaml:4: earlyclose: unknown key "earlyclose" (did you mean "early_close"?); allowed here: closed, early_close, open',
      'calendar.yaml:6: open.0: got "2027-03-01"; it is in closed too; a date is in one list only',
      'calendar.yaml:7: open.1: got "2027-03-06"; it is a Saturday, which never has a session; allowed are weekdays',
      'calendar.yaml:8: open.2: got ["2027-03-08"]; it must be an existing date, YYYY-MM-DD',
      'calendar.yaml:9: early_close: got "2027-07-02"; it must be a list',
    ]);
  });

  test.each([
    { text: '- 2027-01-15', says: 'calendar.yaml:1: the file: got ["2027-01-15"]; it must be a section' },
    { text: 'closed: [20270115]', says: 'calendar.yaml:1: closed.0: got 20270115;' },
    { text: 'closed: [2027-01-15', says: 'calendar.yaml:1: ' },
    { text: 'open: []\nopen: []', says: 'calendar.yaml:2: Map keys must be unique' },
  ])('when it is $text', ({ text, says }) => {
    const { lines } = refusal(text);
    expect(lines.join('\n')).toContain(says);
  });
});
