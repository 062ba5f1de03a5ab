/**
 * `flowdrop drop JOB DATE`: one drop: what its manifest says, its revisions and what changed, checks and audits. With
 * `--file` its Parquet file on stdout, checked before the first byte. Reads only the store.
 */
import { join } from 'node:path';
import { EXCHANGE_TIME_ZONE } from '../api-contract/published-limits.ts';
import { formatInstant } from '../core/date-text.ts';
import { Fault } from '../core/errors.ts';
import { countOf, formatBytes } from '../core/units.ts';
import { readJob } from '../job/job-folder.ts';
import { fileKey } from '../ledger/layout.ts';
import { describeLost, type Ledger } from '../ledger/ledger.ts';
import type { Manifest } from '../ledger/manifest.ts';
import { type DropDocument, describeThrough, dropSchema } from '../state/documents.ts';
import { withScratchFolder } from '../state/job-state.ts';
import { assertDate, assertDirectory, type Call, type Cli, pipeOut, usage, withLedger } from './context.ts';

/** Windows that are listed; the manifest has all. */
const MAX_WINDOWS = 200;
const MAX_REVISIONS = 50;

export async function drop(cli: Cli, { argument, options }: Call<'drop'>) {
  const [name, date = '', ...more] = argument;
  if (name === undefined || more.length > 0)
    throw usage('drop takes a job and a date', 'flowdrop drop JOB YYYY-MM-DD', 'ARGUMENTS_INVALID');
  assertDate('DATE', date);
  const job = await readJob(name, cli.globals.jobs);
  await assertDirectory(cli.cwd, job.drop.to);
  return await withLedger(cli.openers, job, async (ledger) => {
    const manifest = await ledger.manifest(date);
    if (options.file) return await sendFile(cli, ledger, manifest, date);
    const document = await describeDrop(ledger, job.name, date, manifest);
    return cli.print(document, formatDrop(document, cli.openers.clock.now()));
  });
}

/** @throws Fault `NOT_SEALED` (usage), `DROP_DAMAGED`, StoreFault */
async function sendFile(cli: Cli, ledger: Ledger, manifest: Manifest | undefined, date: string) {
  const { openers, signal } = cli;
  if (!manifest) throw usage(`${date} is not sealed: it has no file`, undefined, 'NOT_SEALED');
  return await withScratchFolder(openers.stateDir, openers.clock.now(), async (folder) => {
    const path = join(folder, 'drop');
    if (await ledger.fetchFile(manifest.date, manifest.files[0], path, signal)) return await pipeOut(cli, path);
    const hint = `flowdrop verify JOB --date ${date}`;
    throw new Fault('DROP_DAMAGED', `the file of ${date} is missing, or differs from its manifest`, { hint });
  });
}

/** The schema keeps the members of the document and drops what else a manifest has. */
async function describeDrop(ledger: Ledger, job: string, date: string, manifest: Manifest | undefined) {
  const { dataset, store } = ledger;
  const entry = (await ledger.conditions()).entries.get(date);
  return dropSchema.parse({
    ...{ job, dataset, date, store: store.url },
    condition: manifest?.condition ?? entry?.condition ?? null,
    damage: entry?.damage ?? null,
    accepted: entry?.accepted ?? null,
    audit: entry?.audit ?? null,
    location: manifest ? `${store.url}/${fileKey(dataset, date, manifest.files[0].filename)}` : null,
    manifest: manifest
      ? {
          ...manifest,
          proved: manifest.recount?.proved ?? null,
          quarantined: manifest.quarantine?.rows ?? 0,
          kept: manifest.kept ?? 0,
          doubts: entry?.doubts ?? [],
          checks: manifest.checks.map((check) => ({ ...check, column: check.column ?? null })),
          columns: manifest.schema,
          windows: manifest.windows.slice(0, MAX_WINDOWS),
          windows_total: manifest.windows.length,
          has_summary: manifest.summary !== null,
        }
      : null,
    revisions: manifest ? await listRevisions(ledger, manifest) : [],
  });
}

/** Newest first; a revision whose manifest is gone is named. */
async function listRevisions(ledger: Ledger, sealed: Manifest) {
  const { date } = sealed;
  const revisions: object[] = [{ ...sealed, changes: sealed.changes ?? null, lost: null }];
  const oldest = Math.max(1, sealed.revision - MAX_REVISIONS + 1);
  for (let revision = sealed.revision - 1; revision >= oldest; revision -= 1) {
    const kept = await ledger.kept(date, revision);
    const lost = await ledger.lost(date, revision);
    const words = lost ? describeLost(revision, lost) : kept ? null : `revision ${revision} was not kept`;
    const manifest = kept?.manifest;
    const unknown = { revision, rows: null, condition: null, sealed_at: null };
    const why = manifest ? words : (words ?? 'its manifest is damaged');
    revisions.push({ ...(manifest ?? unknown), lost: why, changes: manifest?.changes ?? null });
  }
  return revisions;
}

function formatDrop(document: DropDocument, nowMs: number): readonly (string | false | null)[] {
  const { job, date, condition, damage, location, manifest, revisions, audit } = document;
  if (!manifest) return [`${job} ${date}: ${condition ?? 'unknown'}, not sealed`];
  const { rows, revision, sealed_at, requests, files, proved, doubts, through } = manifest;
  const timeOf = (at: string) => formatInstant(at, EXCHANGE_TIME_ZONE, nowMs);
  return [
    `${job} ${date}: ${condition}, revision ${revision}, ${countOf(rows, 'row')}, ${formatBytes(files[0]?.size ?? 0)}`,
    damage !== null && `damaged: ${damage}`,
    location,
    `sealed ${timeOf(sealed_at)}, ${countOf(requests, 'request')}; proved: ${proved ?? 'nothing'}`,
    audit && `audited ${timeOf(audit.audited_at)}: ${audit.result}`,
    through !== undefined && audit?.result !== 'equal' && `its rows are those ${describeThrough(through)}`,
    ...doubts,
    ...revisions.slice(1).map((one) => {
      const what = one.rows === null ? '' : countOf(one.rows, 'row');
      return `revision ${one.revision}: ${what} ${one.lost ?? ''}`.trimEnd();
    }),
  ];
}
