/** The section `reports` of a job file: defaults, every option, and what is refused where. The rest is in `job.test.ts`. */
import { describe, expect, test } from 'vitest';
import { isFault } from '../../src/core/errors.ts';
import { identifyReport } from '../../src/job/job.ts';
import { parseJob } from '../../src/job/parse.ts';
import { REPORT_NUMBERS } from '../../src/report/numbers.ts';

const head = (to: string) =>
  `name: trades\nsource:\n  api: historical\ndrop:\n  to: ${to}\n  dataset: trades\nreports:\n`;
/** Line of the first report. */
const FIRST_LINE = 8;

function parse(reports: string, to = 'out') {
  return parseJob('jobs/x.yaml', head(to) + reports).reports;
}

function faultOf(reports: string, to = 'out'): string {
  try {
    parse(reports, to);
  } catch (error) {
    if (isFault(error) && error.code === 'JOB_INVALID') return error.message;
    throw error;
  }
  throw new Error('the job was accepted');
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
      keepsExpiring: true,
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
    zero_gamma: drop-expiring
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
      keepsExpiring: false,
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

interface Case {
  readonly title: string;
  readonly text: string;
  /** Line below that of the report. */
  readonly below: number;
  readonly says: readonly string[];
  readonly to?: string;
}

const CASES: readonly Case[] = [
  {
    title: 'a template that there is not',
    text: '  - template: flw\n    to: [a@example.com]\n',
    below: 0,
    says: ['reports.0.template', '"flw"', 'flow, digest'],
  },
  {
    title: 'a recipient that is no address',
    text: '  - template: flow\n    to: [desk]\n',
    below: 1,
    says: ['reports.0.to.0', '"desk"', 'e-mail'],
  },
  {
    title: 'a recipient with a misspelt key',
    text: '  - template: flow\n    to:\n      - address: a@example.com\n        symbol: [SPY]\n',
    below: 3,
    says: ['reports.0.to.0.symbol', 'did you mean "symbols"', 'address, symbols, timezone'],
  },
  {
    title: 'a recipient in a time zone that there is not',
    text: '  - template: flow\n    to:\n      - address: a@example.com\n        timezone: London\n',
    below: 3,
    says: ['reports.0.to.0.timezone', '"London"', 'IANA'],
  },
  {
    title: 'a recipient that is a number',
    text: '  - template: flow\n    to: [5]\n',
    below: 1,
    says: ['reports.0.to.0', '5', 'a string', 'a section of keys'],
  },
  {
    title: 'a recipient that is listed twice',
    text: '  - template: flow\n    to: [a@example.com, A@Example.com]\n',
    below: 1,
    says: ['reports.0.to.1', 'is listed twice'],
  },
  {
    title: 'a condition on a number that there is not',
    text: flow('only_when: [{ number: gex, below: 0 }]'),
    below: 2,
    says: ['reports.0.only_when.0.number', '"gex"', REPORT_NUMBERS.join(', ')],
  },
  {
    title: 'a condition without a bound',
    text: flow('only_when: [{ number: premium }]'),
    below: 2,
    says: ['reports.0.only_when.0.number', '`above`, `below`'],
  },
  {
    title: 'a condition that nothing fulfils',
    text: flow('only_when: [{ number: premium, above: 2, below: 1 }]'),
    below: 2,
    says: ['reports.0.only_when.0.number', 'above 2 and below 1'],
  },
  {
    title: 'a bound that is no number',
    text: flow('only_when: [{ number: premium, above: 1M }]'),
    below: 2,
    says: ['reports.0.only_when.0.above', '"1M"', 'a number'],
  },
  {
    title: 'a watched symbol in small letters',
    text: flow('symbols: [SPX, spy]'),
    below: 2,
    says: ['reports.0.symbols.1', '"spy"', 'in capitals'],
  },
  {
    title: 'an attachment that there is not',
    text: flow('attach: [xlsx]'),
    below: 2,
    says: ['reports.0.attach.0', '"xlsx"', 'csv, parquet, pdf'],
  },
  {
    title: 'a size without a unit',
    text: flow('attach_limit: "5"'),
    below: 2,
    says: ['reports.0.attach_limit', '"5"', 'B, kB, MB or GB'],
  },
  {
    title: 'a size that no mail server takes',
    text: flow('attach_limit: 1GB'),
    below: 2,
    says: ['reports.0.attach_limit', 'at most 20MB'],
  },
  {
    title: 'a link for longer than S3 allows',
    text: flow('link: { expires: 8d }'),
    to: 's3://bucket',
    below: 2,
    says: ['reports.0.link.expires', '"8d"', '7d'],
  },
  {
    title: 'a link into a directory',
    text: flow('link: { expires: 7d }'),
    below: 2,
    says: ['reports.0.link', 's3://'],
  },
  {
    title: 'a placeholder that there is not',
    text: flow('subject: "Flow {dat}"'),
    below: 2,
    says: ['reports.0.subject', '{dat} is not a placeholder', 'did you mean {date}', '{premium}'],
  },
  {
    title: 'a title of two lines',
    text: flow('title: "a\\nb"'),
    below: 2,
    says: ['reports.0.title', 'one line'],
  },
  {
    title: 'an accent that is a name',
    text: flow('accent: red'),
    below: 2,
    says: ['reports.0.accent', '"red"', '#rrggbb'],
  },
  {
    title: 'a section that there is not',
    text: flow('sections: [moved, watchlst]'),
    below: 2,
    says: ['reports.0.sections.1', '"watchlst"', 'did you mean "watchlist"', 'gex-by-strike'],
  },
  {
    title: 'sections of a digest',
    text: flow('sections: [moved]').replace('template: flow', 'template: digest\n    datasets: [trades]'),
    below: 3,
    says: ['reports.0.sections', 'only allowed with `template: flow`'],
  },
  {
    title: 'a section that is listed twice',
    text: flow('sections: [moved, moved]'),
    below: 2,
    says: ['reports.0.sections.1', '"moved" is listed twice'],
  },
  {
    title: 'a note that is a book',
    text: flow(`note: ${'a'.repeat(4001)}`),
    below: 2,
    says: ['reports.0.note', 'at most 4000'],
  },
  {
    title: 'an address to post to with a password',
    text: flow('post: https://user:word@example.com/hook'),
    below: 2,
    says: ['reports.0.post', 'FLOWDROP_EVENTS_URL'],
  },
  {
    title: 'a flow report of several datasets',
    text: flow('datasets: [trades, index]'),
    below: 2,
    says: ['reports.0.datasets', 'template: digest'],
  },
  {
    title: 'a digest of nothing',
    text: '  - template: digest\n    to: [a@example.com]\n',
    below: 0,
    says: ['reports.0.datasets', 'datasets to show'],
  },
  {
    title: 'a digest with attachments',
    text: '  - template: digest\n    to: [a@example.com]\n    datasets: [x]\n    attach: [csv]\n',
    below: 3,
    says: ['reports.0.attach', 'template: flow'],
  },
  {
    title: 'an unsubscribe address that is no address',
    text: flow('unsubscribe: http://example.com/off'),
    below: 2,
    says: ['reports.0.unsubscribe', 'mailto: or https:'],
  },
  {
    title: 'two reports that could not be told apart',
    text: flow('symbols: [SPY, QQQ]') + flow('symbols: [QQQ, SPY]\non_empty: skip'),
    below: 3,
    says: ['reports.1', 'reports.0', '`name`'],
  },
];

describe('a report is refused for', () => {
  test.each(CASES)('$title', ({ text, below, says, to }) => {
    const message = faultOf(text, to);
    expect(message).toContain(`jobs/x.yaml:${FIRST_LINE + below}: `);
    for (const part of says) expect(message).toContain(part);
  });
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
