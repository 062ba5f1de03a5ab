/**
 * `flowdrop drop JOB DATE`: one drop: what its manifest says, its revisions and what changed, checks and audits. With
 * `--file` its Parquet file on stdout, checked before the first byte. Reads only the store.
 */

import { createReadStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { EXCHANGE_TIME_ZONE } from '../api-contract/published-limits.ts';
import { formatInstant } from '../core/date-text.ts';
import { Fault } from '../core/errors.ts';
import { formatBytes, formatCount } from '../core/units.ts';
import type { Job } from '../job/job.ts';
import { readJob } from '../job/job-folder.ts';
import type { ConditionEntry } from '../ledger/condition-file.ts';
import { fileKey } from '../ledger/layout.ts';
import { describeLost, Ledger } from '../ledger/ledger.ts';
import type { Manifest } from '../ledger/manifest.ts';
import type { DropDocument } from '../state/documents.ts';
import { assertStateFolder, makeScratchFolder } from '../state/state-file.ts';
import type { Store } from '../store/store.ts';
import type { ActionResult, CommandCall } from './command.ts';
import type { CliContext } from './context.ts';
import { assertDate } from './range.ts';
import { assertDirectory } from './store-directory.ts';

interface DropFlags {
  readonly file?: boolean | undefined;
}

/** Windows that are listed; the manifest has all. */
const MAX_WINDOWS = 200;
/** Revisions that are listed, the newest first. */
const MAX_REVISIONS = 50;

type DropCli = Pick<CliContext, 'cwd' | 'openers' | 'signal' | 'terminal'>;

export async function drop(
  cli: DropCli,
  { globals, argument: [name, date = '', ...more], options }: CommandCall<readonly string[], DropFlags>,
): ActionResult {
  if (name === undefined || more.length > 0) {
    throw new Fault('ARGUMENTS_INVALID', 'drop takes a job and a date', {
      kind: 'usage',
      hint: 'flowdrop drop JOB YYYY-MM-DD',
    });
  }
  assertDate('DATE', date);
  const { openers, terminal } = cli;
  const job = await readJob(name, globals.jobs);
  await assertDirectory(cli.cwd, job.drop.to, 'Run the job first, or check `drop.to` in the job file.');
  const store = await openers.openStore(job.drop.to, { objects: job.drop.s3 });
  try {
    const manifest = await new Ledger(store, job.drop.dataset).manifest(date);
    if (options.file) {
      await sendFile(cli, store, manifest, date);
      return undefined;
    }
    const document = await describeDrop(store, job, date, manifest);
    terminal.out(
      globals.json ? `${JSON.stringify(document, undefined, 2)}\n` : formatDrop(document, cli.openers.clock.now()),
    );
    return undefined;
  } finally {
    await store.close();
  }
}

/** @throws Fault `NOT_SEALED` (usage), `DROP_DAMAGED`, StoreFault */
async function sendFile(
  { openers, terminal, signal }: DropCli,
  store: Store,
  manifest: Manifest | undefined,
  date: string,
): Promise<void> {
  if (!manifest) throw new Fault('NOT_SEALED', `${date} is not sealed: it has no file`, { kind: 'usage' });
  await assertStateFolder(openers.stateDir);
  const folder = await makeScratchFolder(openers.stateDir, openers.clock.now());
  try {
    const path = join(folder, 'drop');
    if (!(await new Ledger(store, manifest.dataset).fetchFile(manifest.date, manifest.files[0], path, signal))) {
      throw new Fault('DROP_DAMAGED', `the file of ${date} is missing, or differs from its manifest`, {
        hint: `flowdrop verify JOB --date ${date}`,
      });
    }
    const reading = createReadStream(path);
    reading.pipe(terminal.stdout, { end: false });
    await finished(reading, { signal });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function describeDrop(
  store: Store,
  job: Job,
  date: string,
  manifest: Manifest | undefined,
): Promise<DropDocument> {
  const { dataset } = job.drop;
  const entry = (await new Ledger(store, dataset).conditions()).entries.get(date);
  return {
    job: job.name,
    dataset,
    date,
    store: store.url,
    condition: manifest?.condition ?? entry?.condition ?? null,
    damage: entry?.damage ?? null,
    accepted: entry?.accepted ?? null,
    audit: entry?.audit ?? null,
    location: manifest ? `${store.url}/${fileKey(dataset, date, manifest.files[0].filename)}` : null,
    manifest: manifest ? describeManifest(manifest, entry) : null,
    revisions: manifest ? await listRevisions(store, manifest) : [],
  };
}

function describeManifest(manifest: Manifest, entry: ConditionEntry | undefined) {
  const { revision, condition, degraded_reason, rows, source_rows, duplicates, min_time, max_time } = manifest;
  const { sort, compression, row_groups, requests, started_at, sealed_at, flowdrop_version, filter } = manifest;
  return {
    ...{ revision, condition, degraded_reason, rows, source_rows, duplicates, min_time, max_time },
    ...{ sort, compression, row_groups, requests, started_at, sealed_at, flowdrop_version, filter },
    proved: manifest.recount?.proved ?? null,
    quarantined: manifest.quarantine?.rows ?? 0,
    kept: manifest.kept ?? 0,
    doubts: entry?.doubts ?? [],
    checks: manifest.checks.map(({ check, column, passed, on_failure, found, allowed }) => {
      return { check, column: column ?? null, passed, on_failure, found, allowed };
    }),
    files: manifest.files.map(({ filename, size, hash }) => ({ filename, size, hash })),
    columns: manifest.schema.map(({ name, type, nullable }) => ({ name, type, nullable })),
    query: { sql: manifest.query.sql, entry_point: manifest.query.entry_point },
    windows: manifest.windows.slice(0, MAX_WINDOWS).map(({ window, rows: count }) => ({ window, rows: count })),
    windows_total: manifest.windows.length,
    has_summary: manifest.summary !== null,
  };
}

/** Newest first; a revision whose manifest is gone is named. */
async function listRevisions(store: Store, sealed: Manifest): Promise<DropDocument['revisions']> {
  const { dataset, date } = sealed;
  const ledger = new Ledger(store, dataset);
  const revisions = [describeRevision(sealed, null)];
  const oldest = Math.max(1, sealed.revision - MAX_REVISIONS + 1);
  for (let revision = sealed.revision - 1; revision >= oldest; revision -= 1) {
    const kept = await ledger.kept(date, revision);
    const lost = await ledger.lost(date, revision);
    const words = lost ? describeLost(revision, lost) : kept ? null : `revision ${revision} was not kept`;
    const unknown = { revision, rows: null, condition: null, sealed_at: null };
    revisions.push(
      kept?.manifest
        ? describeRevision(kept.manifest, words)
        : { ...unknown, changes: null, lost: words ?? 'its manifest is damaged' },
    );
  }
  return revisions;
}

type Revision = DropDocument['revisions'][number];

function describeRevision({ revision, rows, condition, sealed_at, changes }: Manifest, lost: string | null): Revision {
  return { revision, rows, condition, sealed_at, changes: changes ?? null, lost };
}

function formatDrop(document: DropDocument, nowMs: number): string {
  const { job, date, condition, damage, location, manifest, revisions, audit } = document;
  if (!manifest) return `${job} ${date}: ${condition ?? 'unknown'}, not sealed\n`;
  const { rows, revision, sealed_at: sealedAt, requests, files } = manifest;
  const [file] = files;
  const lines = [
    `${job} ${date}: ${condition}, revision ${revision}, ${formatCount(rows)} rows, ${formatBytes(file?.size ?? 0)}`,
    ...(damage === null ? [] : [`damaged: ${damage}`]),
    `${location}`,
    `sealed ${formatInstant(sealedAt, EXCHANGE_TIME_ZONE, nowMs)}, ${formatCount(requests)} requests; proved: ${manifest.proved ?? 'nothing'}`,
    ...(audit ? [`audited ${formatInstant(audit.audited_at, EXCHANGE_TIME_ZONE, nowMs)}: ${audit.result}`] : []),
    ...manifest.doubts,
    ...revisions
      .slice(1)
      .map((one) =>
        `revision ${one.revision}: ${one.rows === null ? '' : `${formatCount(one.rows)} rows`} ${one.lost ?? ''}`.trimEnd(),
      ),
  ];
  return `${lines.join('\n')}\n`;
}
