/**
 * `condition.json` of a dataset: one line per known session date, modelled on Databento's `condition.json` (`date`,
 * `condition`, `last_modified_date`), plus the sealed revision and its rows. This module knows the text only;
 * `update-conditions.ts` decides the condition of each date.
 */
import { z } from 'zod';
import { tryParseJson } from '../core/atomic-file.ts';
import { CONDITIONS, type Condition, isSealed, type SealedCondition } from '../plan/conditions.ts';
import { acceptedGapSchema, auditRecordSchema } from '../state/documents.ts';
import { dropFilename } from './layout.ts';
import { listDoubts, type Manifest, sumNulls } from './manifest.ts';

const entrySchema = z.looseObject({
  date: z.string(),
  condition: z.enum(CONDITIONS),
  /** UTC date on which the sealed revision was written; null for an unsealed date. */
  last_modified_date: z.string().nullable(),
  revision: z.number().int().nullable(),
  rows: z.number().int().nullable(),
  /** Size of the drop in bytes, according to its manifest; null for an unsealed date. */
  size: z.number().int().nullable(),
  /** Name of the drop's file; absent for `<dataset>.parquet`. */
  filename: z.string().optional(),
  /** Size in bytes of each file beside the drop, by name; absent for an unsealed date. */
  beside: z.record(z.string(), z.number().int()).optional(),
  /**
   * What is wrong with the date's files in the store, in words; only for damaged dates. Their condition is `degraded`.
   */
  damage: z.string().optional(),
  /** End of the last segment that a sealed date covers, `16:15`; absent once it has all that like sessions have. */
  through: z.string().optional(),
  /** Why a sealed date is degraded; absent otherwise. */
  degraded_reason: z.string().optional(),
  /** Failed checks of the sealed revision, in words; absent if all passed. */
  doubts: z.array(z.string()).optional(),
  /** Values by column that are null because they could not be read, or although the contract has none; absent without any. */
  nulls: z.record(z.string(), z.number().int()).optional(),
  /** The last comparison of the sealed revision with the source; absent before the first. */
  audit: auditRecordSchema.optional(),
  /** For a gap that a person accepted. */
  accepted: acceptedGapSchema.optional(),
});

/** Of an invalid document, in words. */
const SHOWN_ISSUES = 3;

export type ConditionEntry = z.infer<typeof entrySchema>;
export type SealedEntry = ConditionEntry & { readonly condition: SealedCondition };

export function isSealedEntry(entry: ConditionEntry): entry is SealedEntry {
  return isSealed(entry.condition);
}

export interface ConditionDocument {
  /** By date, ascending. Empty when the document is absent or invalid. */
  readonly entries: ReadonlyMap<string, ConditionEntry>;
  /** The text in the store; empty when there is none. */
  readonly text: string;
  /** Why the document is invalid, in words. */
  readonly fault: string | undefined;
}

/** @param text `undefined`: there is no document */
export function parseConditions(text: string | undefined): ConditionDocument {
  if (text === undefined) return { entries: new Map(), text: '', fault: undefined };
  const parsed = z.array(entrySchema).safeParse(tryParseJson(text));
  if (!parsed.success) {
    // Each date may have the same fault: the first ones are enough.
    const first = new z.ZodError(parsed.error.issues.slice(0, SHOWN_ISSUES));
    return { entries: new Map(), text, fault: z.prettifyError(first).replaceAll('\n', ' ') };
  }
  return { entries: new Map(parsed.data.map((entry) => [entry.date, entry])), text, fault: undefined };
}

/** Known sizes of a date's files. */
export type KnownSizes = Pick<ConditionEntry, 'size' | 'filename' | 'beside'>;

export function sizesOf({ dataset, files: [drop, ...others] }: Manifest): KnownSizes {
  return {
    filename: drop.filename === dropFilename(dataset) ? undefined : drop.filename,
    size: drop.size,
    beside: Object.fromEntries(others.map(({ filename, size }) => [filename, size])),
  };
}

/** The entry of a sealed date. @param damage what is wrong with its files, in words */
export function describeSealed(manifest: Manifest, damage?: string): SealedEntry {
  const doubts = listDoubts(manifest);
  return {
    date: manifest.date,
    condition: damage === undefined ? manifest.condition : 'degraded',
    last_modified_date: manifest.sealed_at.slice(0, 'YYYY-MM-DD'.length),
    revision: manifest.revision,
    rows: manifest.rows,
    ...sizesOf(manifest),
    damage,
    through: manifest.through,
    degraded_reason: manifest.degraded_reason,
    doubts: doubts.length === 0 ? undefined : [...doubts],
    nulls: sumNulls(manifest),
  };
}

export function describeUnsealed<C extends Condition>(date: string, condition: C) {
  return { date, condition, last_modified_date: null, revision: null, rows: null, size: null };
}

/** The entry of a date whose manifest is damaged. */
export function describeUnreadable(date: string, damage: string | undefined): SealedEntry {
  return { ...describeUnsealed(date, 'degraded'), damage };
}

/** One entry a line, so that a change to one date changes one line. */
export function formatConditions(entries: readonly ConditionEntry[]): string {
  const lines = [...entries].sort((a, b) => (a.date < b.date ? -1 : 1)).map((entry) => `  ${JSON.stringify(entry)}`);
  return lines.length === 0 ? '[]\n' : `[\n${lines.join(',\n')}\n]\n`;
}
