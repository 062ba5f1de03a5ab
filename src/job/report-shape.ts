/** The section `reports` of a job file, as the user writes it; `job-report.ts` resolves it. A part of `shape.ts`. */
import { z } from 'zod';
import { EXCHANGE_TIME_ZONE } from '../api-contract/published-limits.ts';
import { REPORT_NUMBERS } from '../report/numbers.ts';
import { lookShape } from './look-shape.ts';
import {
  addressSchema,
  durationSchema,
  nameSchema,
  parseDurationSeconds,
  parseSizeBytes,
  sizeSchema,
  timezoneSchema,
} from './plain-shape.ts';

export const REPORT_DEFAULTS = {
  timezone: EXCHANGE_TIME_ZONE,
  /** Many mail servers accept 10 MB per message, and base64 turns three bytes into four. */
  attachLimit: '5MB',
  onEmpty: 'note',
  /** Dataset of the shipped job. */
  chain: 'option-chain',
  zeroGamma: 'keep-expiring',
  /** 1%: a smaller change is rarely worth a second mail. */
  correctAbove: 0.01,
} as const;

/** The longest that a SigV4 signed link can be valid. */
const MAX_LINK_SECONDS = 7 * 86_400;
/** Hardly any mail server accepts a larger message. */
const MAX_ATTACH_BYTES = 20_000_000;

/** Symbols are matched exactly, so `spy` would be reported as a symbol without trades. */
const watchlistSchema = z.array(
  z
    .string()
    .min(1)
    .refine((text) => text === text.toUpperCase(), 'a symbol in capitals, e.g. SPX or BRK.B'),
);

const recipientSchema = z
  .strictObject({
    address: addressSchema.describe('Mail address of the recipient.'),
    symbols: watchlistSchema.optional().describe("Watchlist of this recipient. Default: the report's."),
    timezone: timezoneSchema
      .optional()
      .describe(`Time zone of instants for this recipient. Default: ${REPORT_DEFAULTS.timezone}.`),
  })
  .describe('A recipient with a separate watchlist or time zone.');

const conditionSchema = z
  .strictObject({
    number: z.enum(REPORT_NUMBERS).describe('Number of the report; shares and changes are fractions: 0.25 is 25%.'),
    above: z.number().optional().describe('The number must be more than this.'),
    below: z.number().optional().describe('The number must be less than this.'),
  })
  .superRefine(({ above, below }, context) => {
    const fail = (message: string) => context.addIssue({ code: 'custom', path: ['number'], message });
    if (above === undefined && below === undefined) fail('needs `above`, `below` or both');
    if (above !== undefined && below !== undefined && above >= below)
      fail(`no number is above ${above} and below ${below}`);
  });

/** An address that is a secret belongs into a setting. */
const postSchema = z
  .url({ protocol: /^https?$/, error: 'events, or an http or https address' })
  .refine(
    (text) => !/[@?#]/.test(text),
    'an address without user, password and query; a secret one is set as FLOWDROP_EVENTS_URL',
  );

export const reportSchema = z
  .strictObject({
    template: z.enum(['flow', 'digest']).describe('`flow`: one dataset in full; `digest`: several datasets in short.'),
    to: z
      .array(z.union([addressSchema, recipientSchema]))
      .nonempty()
      .describe('Recipients; each gets a separate mail.'),
    symbols: watchlistSchema.optional().describe('Watchlist, shown in a separate table.'),
    name: nameSchema
      .optional()
      .describe('Distinguishes two reports of this job with the same template and watchlist; needed only then.'),
    datasets: z
      .array(nameSchema)
      .nonempty()
      .optional()
      .describe('For a digest: datasets of the same store, in display order.'),
    market_structure: nameSchema
      .optional()
      .describe('Dataset of market-structure drops in the same store; its exposure is shown beside ours.'),
    chain: z
      .union([nameSchema, z.literal('off')])
      .optional()
      .describe(
        `Dataset of option chains in the same store: GEX, DEX, zero gamma and walls are then of the whole chain. \`off\`: of traded contracts only. Default: ${REPORT_DEFAULTS.chain}, if it is sealed.`,
      ),
    zero_gamma: z
      .enum(['keep-expiring', 'drop-expiring'])
      .optional()
      .describe(
        `Whether zero gamma counts contracts that expire this date, with a time of 1/262 years. Default: ${REPORT_DEFAULTS.zeroGamma}.`,
      ),
    attach: z
      .array(z.enum(['csv', 'parquet', 'pdf']))
      .optional()
      .describe('Attached files: the tables as CSV or Parquet, the report as PDF.'),
    attach_limit: sizeSchema
      .refine((text) => parseSizeBytes(text) <= MAX_ATTACH_BYTES, 'at most 20MB: mail servers accept no more')
      .optional()
      .describe(`Maximum total size of the attachments of a mail. Default: ${REPORT_DEFAULTS.attachLimit}.`),
    link: z
      .strictObject({
        expires: durationSchema
          .refine((text) => parseDurationSeconds(text) <= MAX_LINK_SECONDS, 'at most 7d, the longest that S3 allows')
          .describe('How long the link is valid: 90m, 12h, at most 7d.'),
      })
      .optional()
      .describe('A signed link to the drop, in the mail; only for drops in S3.'),
    only_when: z
      .array(conditionSchema)
      .optional()
      .describe('Mail only if all of these conditions are met. Default: always.'),
    on_empty: z
      .enum(['note', 'skip'])
      .optional()
      .describe(`What to mail for a day without trades: a note, or nothing. Default: ${REPORT_DEFAULTS.onEmpty}.`),
    correct_above: z
      .number()
      .min(0)
      .max(1)
      .optional()
      .describe(
        `Relative change of a number above which a restated day is mailed again. Default: ${REPORT_DEFAULTS.correctAbove}.`,
      ),
    unsubscribe: z
      .string()
      .regex(/^(mailto:[^\s<>,@]+@[^\s<>,@]+|https:\/\/[^\s<>,/]+[^\s<>,]*)$/, 'a mailto: or https: address')
      .optional()
      .describe('Address of the List-Unsubscribe header: mailto: or https:.'),
    ...lookShape,
    post: z
      .union([z.literal('events'), postSchema])
      .optional()
      .describe(
        'Where the summary of the mailed report is posted, with a picture: `events`: to FLOWDROP_EVENTS_URL; or another address without a secret. Default: nowhere.',
      ),
  })
  .superRefine((report, context) => {
    const fail = (key: string, message: string) => context.addIssue({ code: 'custom', path: [key], message });
    if (report.template === 'flow') {
      if (report.datasets !== undefined) fail('datasets', 'is only allowed with `template: digest`');
      return;
    }
    if (report.datasets === undefined) fail('datasets', 'which datasets to show');
    for (const key of ['attach', 'attach_limit', 'link', 'sections'] as const)
      if (report[key] !== undefined) fail(key, 'is only allowed with `template: flow`');
  });

/** What the user writes. */
export type ReportFile = z.infer<typeof reportSchema>;
