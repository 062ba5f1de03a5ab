/** The section `reports` of a job file, as the user writes it. A part of `shape.ts`. */
import { z } from 'zod';
import { EXCHANGE_TIME_ZONE } from '../api-contract/published-limits.ts';
import { findNearest } from '../core/nearest.ts';
import { COLOUR } from '../report/draw/palette.ts';
import { MAX_NOTE_LENGTH, SECTIONS } from '../report/look.ts';
import { REPORT_NUMBERS } from '../report/numbers.ts';
import { listUnknownPlaceholders, PLACEHOLDER_NAMES } from '../report/text/subject.ts';
import { MAX_LINK_SECONDS } from '../store/store.ts';
import {
  addressSchema,
  camelCase,
  durationSchema,
  nameSchema,
  optional,
  orNull,
  sizeSchema,
  timezoneSchema,
  usual,
} from './plain-shape.ts';

/** The dataset of the shipped job. */
export const USUAL_CHAIN = 'option-chain';
/** A smaller change is rarely worth a second mail. */
const USUAL_CORRECTION = 0.01;
/** Many mail servers accept 10 MB per message, and base64 turns three bytes into four. */
const USUAL_ATTACH_BYTES = 5_000_000;
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
    symbols: orNull(watchlistSchema).describe("Watchlist of this recipient. Default: the report's."),
    timezone: usual(
      timezoneSchema,
      EXCHANGE_TIME_ZONE,
      `Time zone of instants for this recipient. Default: ${EXCHANGE_TIME_ZONE}.`,
    ),
  })
  .describe('A recipient with a separate watchlist or time zone.');

const conditionSchema = z
  .strictObject({
    number: z.enum(REPORT_NUMBERS).describe('Number of the report; shares and changes are fractions: 0.25 is 25%.'),
    above: orNull(z.number()).describe('The number must be more than this.'),
    below: orNull(z.number()).describe('The number must be less than this.'),
  })
  .superRefine(({ above, below }, context) => {
    const fail = (message: string) => context.addIssue({ code: 'custom', path: ['number'], message });
    if (above === null && below === null) fail('needs `above`, `below` or both');
    if (above !== null && below !== null && above >= below) fail(`no number is above ${above} and below ${below}`);
  });

/** An address that is a secret belongs into a setting. */
const postSchema = z
  .url({ protocol: /^https?$/, error: 'events, or an http or https address' })
  .refine(
    (text) => !/[@?#]/.test(text),
    'an address without user, password and query; a secret one is set as FLOWDROP_EVENTS_URL',
  );

/** Mail programs cut longer subjects. */
const MAX_WORDS_LENGTH = 120;

const wordsSchema = z
  .string()
  .max(MAX_WORDS_LENGTH, `at most ${MAX_WORDS_LENGTH} characters`)
  .regex(/\S/, 'some words')
  .regex(/^[^\p{Cc}\p{Bidi_Control}]*$/u, 'one line without control characters')
  .superRefine((words, context) => {
    for (const name of listUnknownPlaceholders(words)) {
      const near = findNearest(name, PLACEHOLDER_NAMES);
      const message = `{${name}} is not a placeholder${near === undefined ? '' : ` (did you mean {${near}}?)`}; allowed: ${PLACEHOLDER_NAMES.map((known) => `{${known}}`).join(', ')}`;
      context.addIssue({ code: 'custom', message });
    }
  });

/** A path beside the job file, so that the folder of job files can be moved. */
const pathSchema = z
  .string()
  .regex(/\S/, 'a path')
  .regex(/^[^\p{Cc}]*$/u, 'a path without control characters');

/** How a report looks. `sections` is not for a digest, so it has no default. */
const lookShape = {
  subject: orNull(wordsSchema).describe(
    `Subject of the mail, with placeholders: ${PLACEHOLDER_NAMES.map((name) => `{${name}}`).join(', ')}. Marks such as [degraded] are put before it. Default: date, premium, share of calls, sentiment.`,
  ),
  title: orNull(wordsSchema).describe(
    'Title of mail, full report and PDF, with the placeholders of `subject`. Default: OPTIONS FLOW.',
  ),
  logo: orNull(pathSchema).describe(
    'Picture above the title: a PNG, JPEG or SVG file of at most 500 kB, beside the job file. Default: none.',
  ),
  accent: orNull(z.string().regex(COLOUR, 'a color as "#rrggbb", in quotes')).describe(
    'Color of links, the button and a line at the top; darkened or lightened where its contrast is too low. Default: blue.',
  ),
  sections: optional(
    z.array(z.enum(SECTIONS)),
    'Sections after the first screen, in display order, of the mail and the full report; not for a digest. Default: all.',
  ),
  note: usual(
    z.string().max(MAX_NOTE_LENGTH, `at most ${MAX_NOTE_LENGTH} characters`),
    '',
    'Text below the first screen, in Markdown without HTML and pictures. Default: none.',
  ),
  templates: orNull(pathSchema).describe(
    'Folder beside the job file whose files replace the shipped templates of the same name. Default: none.',
  ),
} as const;

export const reportSchema = z
  .strictObject({
    template: z
      .enum(['flow', 'digest', 'weekly'])
      .describe(
        '`flow`: one dataset in full; `digest`: several datasets in short; `weekly`: a week of one dataset, with its last session.',
      ),
    to: z
      .array(
        z.union([addressSchema, recipientSchema]).transform((recipient) =>
          // Instants are in the exchange's zone, and the watchlist is the report's.
          typeof recipient === 'string'
            ? { address: recipient, symbols: null, timezone: EXCHANGE_TIME_ZONE }
            : recipient,
        ),
      )
      .nonempty()
      .describe('Recipients; each gets a separate mail.'),
    symbols: watchlistSchema.default([]).describe('Watchlist, shown in a separate table.'),
    name: orNull(nameSchema).describe(
      'Distinguishes two reports of this job with the same template and watchlist; needed only then.',
    ),
    datasets: optional(z.array(nameSchema).nonempty(), 'For a digest: datasets of the same store, in display order.'),
    market_structure: orNull(nameSchema).describe(
      'Dataset of market-structure drops in the same store; its exposure is shown beside ours.',
    ),
    chain: optional(
      z.union([nameSchema, z.literal('off')]),
      `Dataset of option chains in the same store: GEX, DEX, zero gamma and walls are then of the whole chain. \`off\`: of traded contracts only. Default: ${USUAL_CHAIN}, if it is sealed.`,
    ),
    attach: optional(
      z.array(z.enum(['csv', 'parquet', 'pdf'])),
      'Attached files: the tables as CSV or Parquet, the report as PDF.',
    ),
    attach_limit: optional(
      sizeSchema.refine((bytes) => bytes <= MAX_ATTACH_BYTES, 'at most 20MB: mail servers accept no more'),
      'Maximum total size of the attachments of a mail. Default: 5MB.',
    ),
    link: optional(
      z.strictObject({
        expires: durationSchema
          .refine((seconds) => seconds <= MAX_LINK_SECONDS, 'at most 7d, the longest that S3 allows')
          .describe('How long the link is valid: 90m, 12h, at most 7d.'),
      }),
      'A signed link to the drop, in the mail; only for drops in S3.',
    ),
    only_when: usual(z.array(conditionSchema), [], 'Mail only if all of these conditions are met. Default: always.'),
    on_empty: usual(
      z.enum(['note', 'skip']),
      'note',
      'What to mail for a day without trades: a note, or nothing. Default: note.',
    ),
    correct_above: optional(
      z.number().min(0).max(1),
      'Relative change of a number above which a restated day is mailed again. Default: 0.01.',
    ),
    unsubscribe: orNull(
      z.string().regex(/^(mailto:[^\s<>,@]+@[^\s<>,@]+|https:\/\/[^\s<>,/]+[^\s<>,]*)$/, 'a mailto: or https: address'),
    ).describe('Address of the List-Unsubscribe header: mailto: or https:.'),
    ...lookShape,
    post: orNull(z.union([z.literal('events'), postSchema])).describe(
      'Where the summary of the mailed report is posted, with a picture: `events`: to FLOWDROP_EVENTS_URL; or another address without a secret. Default: nowhere.',
    ),
  })
  .superRefine((report, context) => {
    const fail = (key: string, message: string) => context.addIssue({ code: 'custom', path: [key], message });
    const { template, datasets, only_when: conditions, on_empty: onEmpty } = report;
    if (template === 'digest') {
      if (datasets === undefined) fail('datasets', 'which datasets to show');
      for (const key of ['attach', 'attach_limit', 'link', 'sections'] as const)
        if (report[key] !== undefined) fail(key, 'is only allowed with `template: flow`');
      return;
    }
    if (datasets !== undefined) fail('datasets', 'is only allowed with `template: digest`');
    if (template === 'flow') return;
    if (report.sections !== undefined) fail('sections', 'is only allowed with `template: flow`');
    if ([report, ...report.to].some(({ symbols }) => symbols !== null && symbols.length > 0))
      fail('symbols', 'is only allowed with `template: flow` or `digest`: a week has no watchlist');
    const onceAWeek = 'is only allowed with `template: flow` or `digest`: a `weekly` report is mailed once a week';
    if (conditions.length > 0) fail('only_when', onceAWeek);
    if (onEmpty === 'skip') fail('on_empty', onceAWeek);
    if (report.correct_above !== undefined) fail('correct_above', onceAWeek);
  })
  .transform(({ subject, title, accent, sections = null, note, logo, templates, ...report }) => {
    const { chain, link, on_empty: onEmpty, datasets = [], attach = [], ...rest } = report;
    const {
      attach_limit: attachLimitBytes = USUAL_ATTACH_BYTES,
      correct_above: correctionThreshold = USUAL_CORRECTION,
      ...same
    } = rest;
    return {
      ...camelCase(same),
      ...{ datasets, attach, attachLimitBytes, correctionThreshold },
      /** Null: only traded contracts count. `isNamed`: the job names it. */
      chain: chain === 'off' ? null : { dataset: chain ?? USUAL_CHAIN, isNamed: chain !== undefined },
      /** Lifetime of a link to the drop; null: no link. */
      linkSeconds: link?.expires ?? null,
      /** Whether a day without trades is mailed. */
      onEmpty: onEmpty === 'note' ? ('send' as const) : ('skip' as const),
      look: { subject, title, accent, sections, note, logo, templates },
    };
  });
