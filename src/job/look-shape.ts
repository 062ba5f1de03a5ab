/** How a report looks, as the user writes it in `reports`. A part of `report-shape.ts`. */
import { z } from 'zod';
import { findNearest } from '../core/nearest.ts';
import { COLOUR } from '../report/draw/palette.ts';
import { MAX_NOTE_LENGTH, SECTIONS } from '../report/look.ts';
import { listUnknownPlaceholders, PLACEHOLDER_NAMES } from '../report/text/subject.ts';
import { orNull } from './plain-shape.ts';

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

/** Keys of a report. `sections` is not for a digest, so it has no default. */
export const lookShape = {
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
  sections: z
    .array(z.enum(SECTIONS))
    .optional()
    .describe(
      'Sections after the first screen, in display order, of the mail and the full report; not for a digest. Default: all.',
    ),
  note: z
    .string()
    .max(MAX_NOTE_LENGTH, `at most ${MAX_NOTE_LENGTH} characters`)
    .default('')
    .describe('Text below the first screen, in Markdown without HTML and pictures. Default: none.'),
  templates: orNull(pathSchema).describe(
    'Folder beside the job file whose files replace the shipped templates of the same name. Default: none.',
  ),
} as const;
