/**
 * The documents of the daemon: the status of a job as far as it is kept, and what the JSON API answers, with its OpenAPI
 * document. The pages and the metrics are drawn from the same documents, so that page, API and description cannot differ.
 * Fields may be added; none is renamed or removed within `v1`.
 */
import { z } from 'zod';
import { CONDITIONS, type Condition, isSealed } from '../plan/conditions.ts';
import { actionEntrySchema } from '../state/action-log.ts';
import { dateStatusSchema, dropSchema, jobStatusSchema, planSchema } from '../state/documents.ts';
import { RUN_COMMANDS, type RunRecord, runRecordSchema, runWindowSchema } from '../state/run-record.ts';

const instant = z.iso.datetime();

export function toInstant(atMs: number): string {
  return new Date(atMs).toISOString();
}

export function toInstantOrNull(atMs: number | undefined): string | null {
  return atMs === undefined || !Number.isFinite(atMs) ? null : toInstant(atMs);
}

/** Milliseconds since the epoch; `undefined` for no instant. */
export function parseInstant(text: string | null | undefined): number | undefined {
  const atMs = Date.parse(text ?? '');
  return Number.isNaN(atMs) ? undefined : atMs;
}

const conditionSchema = z.enum(CONDITIONS);
const outcomeSchema = runRecordSchema.shape.outcome.unwrap();

/** Weeks whose dates the daemon keeps one by one. Of a dataset of ten years, the older dates are only counted. */
export const KEPT_WEEKS = 53;

/**
 * One job in the output of `flowdrop --json status`, which is a list of jobs; without runs and who makes
 * them, which the daemon knows by itself and newer, and old dates, because it holds those of all jobs for as long as it lives.
 */
export const statusSchema = jobStatusSchema
  .omit({ last_run: true, last_backfill: true, running: true, last_due: true, runner: true, attention: true })
  .transform(({ dates, ...status }) => ({
    ...status,
    /** Those of the last `KEPT_WEEKS`, and older ones that are not sealed. */
    dates: dates.filter(({ condition }, index) => index >= dates.length - 7 * KEPT_WEEKS || !isSealed(condition)),
    /** How many dates have each condition, of all. */
    date_counts: countConditions(dates.map(({ condition }) => condition)),
  }));

export type StatusDocument = z.infer<typeof statusSchema>;

function countConditions(found: readonly Condition[]): Readonly<Record<Condition, number>> {
  const count = (one: Condition) => found.filter((each) => each === one).length;
  return Object.fromEntries(CONDITIONS.map((one) => [one, count(one)])) as Record<Condition, number>;
}

/** What a job is now, the most urgent first. */
export const JOB_STATES = ['broken', 'failed', 'unread', 'gaps', 'running', 'waiting', 'new', 'well'] as const;

export type JobStateWord = (typeof JOB_STATES)[number];

const problemSchema = z.object({
  level: z.enum(['well', 'note', 'wrong']),
  text: z.string(),
  /** The affected job, if it is one job. */
  job: z.string().nullable(),
  /** What helps, as an action of the page; null if a person must look. */
  help: z.enum(['run', 'retry', 'reload', 'accept']).nullable(),
  date: z.string().nullable(),
  /** The run that shows why, if one does. */
  run: z.string().nullable(),
});

const sessionSchema = dateStatusSchema.pick({ date: true, rows: true, revision: true }).extend({
  condition: conditionSchema.nullable().meta({ description: 'null: nothing is known about the session' }),
});

const runDocumentSchema = runRecordSchema.omit({ process: true });

export const jobSummarySchema = z.object({
  name: z.string(),
  file: z.string(),
  dataset: z.string().nullable(),
  store: z.string().nullable(),
  state: z.enum(JOB_STATES),
  schedule: z.object({ cron: z.string(), timezone: z.string(), distributed: z.boolean() }).nullable(),
  next_run: instant.nullable(),
  retry_at: instant.nullable(),
  last_success: instant.nullable(),
  last_run: z
    .object({ id: z.string(), outcome: outcomeSchema, finished_at: instant, error: z.string().nullable() })
    .nullable(),
  running: runRecordSchema.pick({ id: true, reason: true, started_at: true }).nullable(),
  gaps: z.number().nullable().meta({ description: 'null until the status is read' }),
  sessions: z.array(sessionSchema).meta({ description: 'the last sessions, oldest first' }),
  status_read_at: instant.nullable(),
});

export const jobsSchema = z.object({
  as_of: instant,
  daemon: z.object({ version: z.string(), id: z.string(), started_at: instant, is_stopping: z.boolean() }),
  problems: z.array(problemSchema),
  jobs: z.array(jobSummarySchema),
});

const reportSchema = jobStatusSchema.shape.reports.unwrap().element.extend({ job: z.string(), href: z.string() });

const gapSchema = z.object({
  job: z.string(),
  date: z.string(),
  condition: z.enum(['pending', 'missing']),
  begins_to_expire: instant.nullable().meta({ description: 'may be in the past, as the status is; null: never' }),
});

export const jobSchema = jobSummarySchema.extend({
  as_of: instant,
  problems: z.array(problemSchema),
  fault: z
    .object({ message: z.string(), since: instant })
    .nullable()
    .meta({ description: 'why the current job file is not in use' }),
  status_fault: z.string().nullable().meta({ description: 'why the status cannot be read' }),
  waiting_since: instant.nullable().meta({ description: 'while a run waits for a free slot' }),
  gap_dates: z.array(gapSchema).meta({ description: 'soonest expiry first' }),
  owed_events: jobStatusSchema.shape.owed_events.meta({ description: 'that their receivers have not accepted' }),
  late: jobStatusSchema.shape.late.meta({ description: 'the newest session that missed `schedule.sealed_by`' }),
  next_deadline: instant.nullable(),
  active: runDocumentSchema.nullable().meta({ description: 'the active run as it last wrote it' }),
  dates: z
    .array(dateStatusSchema)
    .meta({ description: `of the last ${KEPT_WEEKS} weeks, and older ones that are not sealed; oldest first` }),
  date_counts: z
    .record(conditionSchema, z.number())
    .nullable()
    .meta({ description: 'of all dates; null until the status is read' }),
  runs: z.array(runDocumentSchema).meta({ description: 'newest first' }),
  reports: z.array(reportSchema).meta({ description: 'newest first' }),
});

export const runsSchema = z.object({
  runs: z.array(runDocumentSchema).meta({ description: 'newest first' }),
  next: z.string().nullable().meta({ description: 'pass it as `before` for older runs; null: there are none' }),
});

export const runSchema = z.object({
  run: runDocumentSchema,
  windows: z.array(runWindowSchema).meta({ description: 'oldest first' }),
});

/** What `flowdrop --json query` prints. */
const rowsSchema = z.array(z.record(z.string(), z.unknown()));

export type Rows = z.infer<typeof rowsSchema>;

/** What a backfill would cost. */
const priceSchema = planSchema.pick({ dates: true, total: true });

export const dropDetailSchema = z.object({
  drop: dropSchema,
  first_rows: rowsSchema.nullable().meta({ description: 'null unless asked for with `rows=1`' }),
  sums: rowsSchema.nullable().meta({ description: 'by symbol; null unless asked for, or without a summary' }),
});

export type DropDetail = z.infer<typeof dropDetailSchema>;

export const reportsSchema = z.object({ reports: z.array(reportSchema) });

const errorSchema = z.object({ error: z.object({ code: z.string(), message: z.string() }) });

export type Problem = z.infer<typeof problemSchema>;
export type JobSummary = z.infer<typeof jobSummarySchema>;
export type JobsDocument = z.infer<typeof jobsSchema>;
export type JobDocument = z.infer<typeof jobSchema>;
export type RunDetail = z.infer<typeof runSchema>;
export type RunsDocument = z.infer<typeof runsSchema>;
export type RunSummary = z.infer<typeof runDocumentSchema>;
export type ReportsDocument = z.infer<typeof reportsSchema>;
export type ReportLink = z.infer<typeof reportSchema>;
export type Gap = z.infer<typeof gapSchema>;

/** What the daemon knows of a job by itself; the rest of its document follows from that and the time. */
export interface JobView
  extends Pick<JobDocument, 'name' | 'file' | 'schedule' | 'next_run' | 'retry_at' | 'waiting_since' | 'running'>,
    Pick<JobDocument, 'fault' | 'status_fault' | 'status_read_at'> {
  /** How long after its last trades are visible a session may be sealed. */
  readonly settle_seconds: number;
  /** The active run as it last wrote it; null before its process did. */
  readonly active: RunRecord | null;
  /** Runs that this machine remembers, newest first, without staging; bounded. */
  readonly runs: readonly RunRecord[];
  /** As it was last read; null before. */
  readonly status: StatusDocument | null;
}

export const ACTIONS = ['run', 'retry', 'stop', 'price', 'backfill', 'audit', 'accept', 'send', 'reload'] as const;

export type ActionName = (typeof ACTIONS)[number];

/** Filters of the list of runs. */
export const runQuerySchema = z.object({
  job: z.string().optional().describe('only of this job'),
  command: z.enum(RUN_COMMANDS).optional().describe('only of this command'),
  outcome: z
    .enum(['running', ...outcomeSchema.options])
    .optional()
    .describe('only with this outcome, or `running`'),
  before: z.string().optional().describe('`next` of an answer: older runs'),
  limit: z.coerce.number().int().min(1).max(500).optional().describe('maximum number of runs, 1 to 500'),
});

export const dateSchema = z.string().regex(/^\d{4}-\d{2}-\d{2}$/, 'a date is YYYY-MM-DD');
/** Any characters but those that move a cursor or end a line. */
const textSchema = (max: number) =>
  z
    .string()
    .trim()
    .max(max)
    .regex(/^[^\p{Cc}\p{Bidi_Control}]*$/u, 'no control characters');

/** Fields of every action; each uses some. */
export const actionFieldsSchema = z.object({
  job: z.string().optional(),
  run: z.string().optional(),
  date: dateSchema.optional(),
  from: dateSchema.optional(),
  to: z
    .union([
      dateSchema,
      z
        .string()
        .max(254)
        .regex(/^[^\s@<>",;-][^\s@<>",;]*@[^\s@<>",;]+$/, 'one address'),
    ])
    .optional(),
  mode: z.enum(['', 'missing', 'failed', 'all']).optional(),
  reason: textSchema(500).optional(),
  by: textSchema(100).optional(),
});

export type ActionFields = z.infer<typeof actionFieldsSchema>;

/** What a program posts. */
export const actionRequestSchema = actionFieldsSchema.extend({ action: z.enum(ACTIONS) });

const actionAnswerSchema = z.object({
  outcome: z.enum(['done', 'started', 'refused', 'failed']),
  text: z.string(),
  line: z.string().nullable().meta({ description: 'what to type for the same: the words after `flowdrop`' }),
  price: priceSchema.optional().meta({ description: 'of a backfill' }),
});

export type ActionAnswer = z.infer<typeof actionAnswerSchema>;

export const actionLogSchema = z.object({ actions: z.array(actionEntrySchema).meta({ description: 'newest first' }) });

export type ActionLogDocument = z.infer<typeof actionLogSchema>;

export interface DescribedRoute {
  readonly summary: string;
  readonly answer: z.ZodType;
  readonly query?: z.ZodObject;
}

/** The OpenAPI document. @param routes by address; `{job}` and the like are parts of it @param version of the program */
export function describeApi(routes: Readonly<Record<string, DescribedRoute>>, version: string): unknown {
  return {
    openapi: '3.1.0',
    info: {
      title: 'flowdrop',
      version,
      description:
        'What the daemon shows and does. Fields may be added; none is renamed or removed. With FLOWDROP_STATUS_TOKEN each request needs it as a bearer token.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    security: [{ token: [] }, {}],
    paths: Object.fromEntries(Object.entries(routes).map(([path, route]) => [path, describePath(path, route)])),
    components: { securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
  };
}

function describePath(path: string, { summary, answer, query = z.object() }: DescribedRoute) {
  const words = path.replace('/api/', '').split(/[/{}]+/);
  const parts = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => {
    return { name, in: 'path', description: `the ${name}`, required: true, schema: { type: 'string' } };
  });
  const queries = Object.entries(query.shape).map(([name, schema]) => {
    const { description, ...rest } = describeSchema(schema, 'input');
    return { name, in: 'query', description, required: false, schema: rest };
  });
  const get = {
    summary,
    operationId: `read${words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('')}`,
    parameters: [...parts, ...queries],
    responses: { 200: describeAnswer('the document', answer), ...FAILURES },
  };
  return path === '/api/actions' ? { get, post: ACT } : { get };
}

const FAILURES = {
  400: describeAnswer('a parameter is wrong', errorSchema),
  401: describeAnswer('the token is missing or wrong', errorSchema),
  403: describeAnswer('not allowed', errorSchema),
  404: describeAnswer('not found', errorSchema),
};

const ACT = {
  summary: 'Does what a command does: a run, a backfill, a stop. For programs; pages have forms',
  operationId: 'act',
  requestBody: {
    required: true,
    content: { 'application/json': { schema: describeSchema(actionRequestSchema, 'input') } },
  },
  responses: {
    ...FAILURES,
    202: describeAnswer('started, or done', actionAnswerSchema),
    409: describeAnswer('refused, with the reason', actionAnswerSchema),
    413: describeAnswer('the body is too large', errorSchema),
    415: describeAnswer('the body is not JSON', errorSchema),
    502: describeAnswer('it failed, with the reason', actionAnswerSchema),
  },
};

function describeAnswer(description: string, schema: z.ZodType) {
  return { description, content: { 'application/json': { schema: describeSchema(schema) } } };
}

function describeSchema(schema: z.ZodType, io: 'input' | 'output' = 'output') {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io });
  return rest;
}
