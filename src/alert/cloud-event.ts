/**
 * Events as CloudEvents 1.0 in structured JSON (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md).
 * Invariant: an id depends only on what happened, never on who reports it or when, so that a receiver can drop
 * repetitions by `source` and `id`; no event contains a secret, a signed link or a mail address. Pure.
 */
import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import { EVENT_TYPES } from '../job/shape.ts';
import { dropKeyOf, historyKey } from '../ledger/layout.ts';
import type { Manifest } from '../ledger/manifest.ts';

/** The job's choice are the first five; a report's summary goes to the address that the report names. */
export const CLOUD_EVENT_TYPES = [...EVENT_TYPES, 'report.posted'] as const;

export type CloudEventType = (typeof CLOUD_EVENT_TYPES)[number];

export const cloudEventSchema = z.object({
  specversion: z.literal('1.0'),
  id: z.string(),
  source: z.string(),
  type: z.enum(CLOUD_EVENT_TYPES),
  /** When it happened, ISO 8601 in UTC. */
  time: z.iso.datetime(),
  /** The trading date. */
  subject: z.string(),
  datacontenttype: z.literal('application/json'),
  data: z.record(z.string(), z.json()),
});

export type CloudEvent = Readonly<z.infer<typeof cloudEventSchema>>;

/** Whose events they are. */
export interface EventOrigin {
  /** Id of the store, the same on every machine that uses it. */
  readonly storeId: string;
  /** As `Store.url`. */
  readonly storeUrl: string;
  readonly job: string;
  readonly dataset: string;
}

/** @param isReplaced whether a later revision has replaced this one: its file is in the history */
export function buildDropEvent(origin: EventOrigin, manifest: Manifest, isReplaced: boolean): CloudEvent {
  const { date, revision, sealed_at: time, changes } = manifest;
  const type = revision === 1 ? 'drop.sealed' : changes?.extended ? 'drop.extended' : 'drop.restated';
  return buildEvent(origin, type, date, time, `r${revision}`, describeDrop(origin, manifest, isReplaced));
}

/** @param time when the loss was found */
export function buildLossEvent(origin: EventOrigin, date: string, time: string): CloudEvent {
  return buildEvent(origin, 'date.lost', date, time, 'r0', { revision: null, condition: 'expired' });
}

export interface SentReport {
  /** Distinguishes the report from the job's others. */
  readonly id: string;
  readonly template: string;
  /** Recipients whose mail was accepted so far. */
  readonly recipients: number;
  /** When the first of them was mailed. */
  readonly time: string;
  /** Whether one of the recipients was mailed an earlier revision. */
  readonly isCorrection: boolean;
}

/**
 * @param manifest of the revision that was mailed
 * @param summary what `report-post.ts` makes of the report, to be posted; without it, the event says that it was mailed
 */
export function buildReportEvent(
  origin: EventOrigin,
  manifest: Manifest,
  { time, template, recipients, id }: SentReport,
  summary?: CloudEvent['data'],
): CloudEvent {
  const { date, revision, condition } = manifest;
  const data = summary
    ? { revision, condition, report: template, ...summary }
    : { ...describeDrop(origin, manifest, false), report: template, recipients };
  const type = summary ? 'report.posted' : 'report.sent';
  return buildEvent(origin, type, date, time, `r${revision}/${origin.job}/${id}`, data);
}

/** Whether it is the summary of this report. @param id of the report */
export function isPostOf({ type, id: event }: CloudEvent, id: string): boolean {
  return type === 'report.posted' && event.endsWith(`/${id}/report.posted`);
}

function buildEvent(
  { storeId, job, dataset }: EventOrigin,
  type: CloudEventType,
  date: string,
  time: string,
  about: string,
  data: CloudEvent['data'],
): CloudEvent {
  return {
    specversion: '1.0',
    id: `${dataset}/${date}/${about}/${type}`,
    source: `urn:flowdrop:${encodeURIComponent(storeId)}:${encodeURIComponent(dataset)}`,
    ...{ type, time: new Date(time).toISOString(), subject: date, datacontenttype: 'application/json' },
    data: { job, dataset, date, ...data },
  };
}

/** URL of an object, of a store in a directory too. */
export function addressOf(storeUrl: string, key: string): string {
  const root = storeUrl.includes('://') ? storeUrl : pathToFileURL(storeUrl).href;
  return `${root}/${key}`;
}

function describeDrop({ storeUrl }: EventOrigin, manifest: Manifest, isReplaced: boolean): CloudEvent['data'] {
  const { dataset, date, revision, condition, rows, supersedes, files } = manifest;
  const [{ filename, size, hash }] = files;
  const key =
    isReplaced && manifest.table === undefined ? historyKey(dataset, date, revision, filename) : dropKeyOf(manifest);
  return {
    ...{ revision, condition, rows, supersedes, size },
    object: addressOf(storeUrl, key),
    sha256: hash.replace(/^sha256:/, ''),
  };
}
