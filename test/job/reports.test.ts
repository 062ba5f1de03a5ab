/** The section `reports` of a job file: defaults, every option, and what is refused where. The rest is in `job.test.ts`. */
import { describe, expect, test } from 'vitest';
import { identifyReport } from '../../src/job/job.ts';
import { parseJob } from '../../src/job/parse.ts';
import { REPORT_NUMBERS } from '../../src/report/numbers.ts';
import { expectJobFault } from './faults.ts';

const head = (to: string) =>
  `name: trades\nsource:\n  api: historical\ndrop:\n  to: ${to}\n  dataset: trades\nreports:\n`;
/** Line of the first report. */
const FIRST_LINE = 8;

function parse(reports: string, to = 'out') {
  return parseJob('jobs/x.yaml', head(to) + reports).reports;
}

const flow = (lines: string) =>
  `  - template: flow\n    to: [a@example.com]\n    ${lines.replaceAll('\n', '\n    ')}\n`;

test('a report with nothing but recipients has every default', () => {
  expect(parse('  - template: flow\n    to: [a@example.com]\n')).toEqual([
    {
      template: 'flow',
      name: null,
      to: [{ address: 'a@example.com', symbols: null, timezone: 'America/New_York' }],
      symbols: [],
      datasets: [],
      marketStructure: null,
      chain: { dataset: 'option-chain', isNamed: false },
      attach: [],
      attachLimitBytes: 5_000_000,
      linkSeconds: null,
      onlyWhen: [],
      onEmpty: 'send',
      correctionThreshold: 0.01,
      unsubscribe: null,
      look: { subject: null, title: null, accent: null, sections: null, note: '', logo: null, templates: null },
      post: null,
    },
  ]);
});

test('a report with every option has them as the code uses them', () => {
  const text = `  - template: flow
    name: desk
    to:
      - a@example.com
      - { address: b@example.com, symbols: [SPX, VIX], timezone: Europe/London }
    symbols: [SPY]
    market_structure: structure
    chain: chains
    attach: [csv, parquet, pdf]
    attach_limit: 2.5 MB
    link: { expires: 7d }
    only_when:
      - { number: net_gex, below: 0 }
      - { number: premium_change, above: 0.25, below: 4 }
    on_empty: skip
    correct_above: 0
    unsubscribe: https://example.com/off
    subject: "Desk {date}: {premium}"
    title: Hafen
    logo: brand/logo.svg
    accent: "#0b3d91"
    sections: [moved, watchlist]
    note: "*Hello*"
    templates: ../brand
    post: https://example.com/hook
`;
  expect(parse(text, 's3://bucket/drops')).toEqual([
    {
      template: 'flow',
      name: 'desk',
      to: [
        { address: 'a@example.com', symbols: null, timezone: 'America/New_York' },
        { address: 'b@example.com', symbols: ['SPX', 'VIX'], timezone: 'Europe/London' },
      ],
      symbols: ['SPY'],
      datasets: [],
      marketStructure: 'structure',
      chain: { dataset: 'chains', isNamed: true },
      attach: ['csv', 'parquet', 'pdf'],
      attachLimitBytes: 2_500_000,
      linkSeconds: 604_800,
      onlyWhen: [
        { number: 'net_gex', above: null, below: 0 },
        { number: 'premium_change', above: 0.25, below: 4 },
      ],
      onEmpty: 'skip',
      correctionThreshold: 0,
      unsubscribe: 'https://example.com/off',
      look: {
        ...{ subject: 'Desk {date}: {premium}', title: 'Hafen', accent: '#0b3d91', sections: ['moved', 'watchlist'] },
        // Beside the job file, which is in jobs/.
        ...{ note: '*Hello*', logo: 'jobs/brand/logo.svg', templates: 'brand' },
      },
      post: 'https://example.com/hook',
    },
  ]);
});

test('a digest has its datasets in the order written', () => {
  const [report] = parse('  - template: digest\n    to: [a@example.com]\n    datasets: [trades, index]\n');
  expect(report).toMatchObject({ template: 'digest', datasets: ['trades', 'index'] });
});

test.each([
  ['90m', 5400],
  ['12h', 43_200],
  ['7d', 604_800],
] as const)('a link that expires after %s holds for %d seconds', (text, seconds) => {
  expect(parse(flow(`link: { expires: ${text} }`), 's3://bucket')[0]?.linkSeconds).toBe(seconds);
});

const digest = (line: string) => flow(line).replace('template: flow', 'template: digest\n    datasets: [x]');
const weekly = (line: string) => flow(line).replace('template: flow', 'template: weekly');
const to = (recipients: string) => `  - template: flow\n    to: [${recipients}]\n`;

/** Each with its line below that of the report, and the fault: key, what came, what is allowed; parts with `…` between. */
const CASES: readonly (readonly [text: string, below: number, fault: string])[] = [
  [to('a@example.com').replace('flow', 'flw'), 0, 'template: got "flw"; allowed: flow, digest, weekly'],
  [to('desk'), 1, 'to.0: got "desk"; an e-mail address'],
  [
    to('{ address: a@example.com, symbol: [A] }'),
    1,
    'to.0.symbol: … did you mean "symbols" … address, symbols, timezone',
  ],
  [
    to('{ address: a@example.com, timezone: London }'),
    1,
    'to.0.timezone: got "London"; a time zone of the IANA database',
  ],
  [to('5'), 1, 'to.0: got 5; … a string … a section of keys'],
  [to('a@example.com, A@Example.com'), 1, 'to.1: "a@example.com" is listed twice'],
  [flow('only_when: [{ number: gex, below: 0 }]'), 2, `only_when.0.number: got "gex"; … ${REPORT_NUMBERS.join(', ')}`],
  [flow('only_when: [{ number: premium }]'), 2, 'only_when.0.number: … needs `above`, `below` or both'],
  [flow('only_when: [{ number: premium, above: 2, below: 1 }]'), 2, 'only_when.0.number: … above 2 and below 1'],
  [flow('only_when: [{ number: premium, above: 1M }]'), 2, 'only_when.0.above: got "1M"; it must be a number'],
  [flow('symbols: [SPX, spy]'), 2, 'symbols.1: got "spy"; a symbol in capitals'],
  [flow('attach: [xlsx]'), 2, 'attach.0: got "xlsx"; allowed: csv, parquet, pdf'],
  [flow('attach_limit: "5"'), 2, 'attach_limit: got "5"; a size with its unit: B, kB, MB or GB'],
  [flow('attach_limit: 1GB'), 2, 'attach_limit: got "1GB"; at most 20MB'],
  [flow('link: { expires: 8d }'), 2, 'link.expires: got "8d"; at most 7d'],
  [flow('link: { expires: 7d }'), 2, 'link: is only allowed with `to: s3://...`'],
  [flow('subject: "Flow {dat}"'), 2, 'subject: … {dat} is not a placeholder (did you mean {date}?); … {premium}'],
  [flow('title: "a\\nb"'), 2, 'title: got "a\\nb"; one line'],
  [flow('accent: red'), 2, 'accent: got "red"; … #rrggbb'],
  [flow('sections: [moved, watchlst]'), 2, 'sections.1: got "watchlst"; … gex-by-strike … did you mean "watchlist"'],
  [digest('sections: [moved]'), 3, 'sections: … is only allowed with `template: flow`'],
  [flow('sections: [moved, moved]'), 2, 'sections.1: "moved" is listed twice'],
  [flow(`note: ${'a'.repeat(4001)}`), 2, 'note: … at most 4000'],
  [flow('post: https://user:word@example.com/hook'), 2, 'post: … FLOWDROP_EVENTS_URL'],
  [flow('datasets: [trades, index]'), 2, 'datasets: … is only allowed with `template: digest`'],
  [to('a@example.com').replace('flow', 'digest'), 0, 'datasets: … datasets to show'],
  [
    weekly('only_when: [{ number: premium, above: 1 }]'),
    2,
    'only_when: … is only allowed with `template: flow` or `digest`',
  ],
  [weekly('correct_above: 0.5'), 2, 'correct_above: … a `weekly` report is mailed once a week'],
  [weekly('on_empty: skip'), 2, 'on_empty: … a `weekly` report is mailed once a week'],
  [weekly('sections: [moved]'), 2, 'sections: … is only allowed with `template: flow`'],
  [weekly('symbols: [SPX]'), 2, 'symbols: … a week has no watchlist'],
  [weekly('datasets: [trades]'), 2, 'datasets: … is only allowed with `template: digest`'],
  [digest('attach: [csv]'), 3, 'attach: … is only allowed with `template: flow`'],
  [flow('unsubscribe: http://example.com/off'), 2, 'unsubscribe: … a mailto: or https: address'],
];

test.each(CASES)('a report is refused: %j, line %i below its own: %s', (text, below, fault) => {
  expectJobFault(head('out') + text, FIRST_LINE + below, `reports.0.${fault}`);
});

test('two reports that could not be told apart are refused', () => {
  const two = flow('symbols: [SPY, QQQ]') + flow('symbols: [QQQ, SPY]\non_empty: skip');
  expectJobFault(head('out') + two, FIRST_LINE + 3, 'reports.1: has the same template and symbols as reports.0');
});

describe('what tells a report from others', () => {
  const identify = (reports: string) => parse(reports).map(identifyReport);

  test('is its template and its symbols in any order, and nothing that may be edited', () => {
    const [plain] = identify(flow('symbols: [SPY, QQQ]'));
    const [edited] = identify(
      flow('symbols: [QQQ, SPY]\nattach: [csv]\non_empty: skip\nonly_when: [{ number: premium, above: 1 }]'),
    );
    expect(edited).toBe(plain);
    // As receipts in the store have it: nobody is mailed again after an update.
    expect(plain).toBe('flow-e154845f');
  });

  test('is its name where it has one', () => {
    const identities = identify(flow('name: a') + flow('name: b') + flow('symbols: []'));
    expect(new Set(identities).size).toBe(3);
  });
});
