/** `flowdrop query "SQL"`: SQL over the sealed drops of a store. */

import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { type Archive, type ArchiveAnswer, describeWorkers, openArchive } from '../../archive/archive.ts';
import type { Coverage } from '../../archive/coverage.ts';
import { previousSessions } from '../../calendar/session.ts';
import { planWorkerMemory, readMemoryBytes } from '../../core/machine.ts';
import { formatBytes, formatCount, formatDuration } from '../../core/units.ts';
import { computeLookback } from '../../plan/dates.ts';
import { usage } from '../arguments.ts';
import { workerCommand } from '../child.ts';
import type { ActionResult } from '../command.ts';
import type { Call } from '../commands.ts';
import type { Cli } from '../context.ts';
import { type DatasetPlace, findDataset, listReadable } from './dataset.ts';
import { chooseOutput, deliver } from './output.ts';
import { declareTimes } from './wall-clock.ts';

/** Most dates that are listed by name; the rest is counted. */
const MAX_NAMED = 20;

export async function query(cli: Cli, { argument, options }: Call<'query'>): ActionResult {
  const { terminal, openers, globals } = cli;
  const output = await chooseOutput(cli, options);
  const sql = argument === '-' ? await text(terminal.stdin) : argument;
  if (sql.trim() === '') throw usage('the SQL is empty', 'Give one SELECT, or - and the SQL on stdin.', 'SQL_MISSING');
  const place = await findDataset(cli.cwd, globals.jobs, options);
  const startedMs = openers.clock.now();
  return await withArchive(cli, place, options, async (archive, folder) => {
    const path = output.file?.temporary ?? join(folder, 'answer');
    try {
      const answer = await archive.query({ sql, format: output.format, path });
      await declareTimes(output.format, path, answer.columns, cli.signal);
      terminal.err(describeNotes(answer, openers.clock.now() - startedMs));
      await deliver(cli, output, path, () => describeAnswer(answer));
    } finally {
      await rm(path, { force: true });
    }
    return undefined;
  });
}

async function withArchive(
  { openers, signal, self }: Cli,
  place: DatasetPlace,
  { apiTypes, engine }: Call<'query'>['options'],
  act: (archive: Archive, folder: string) => ActionResult,
): ActionResult {
  const server = await openers.openQueryServer(engine);
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'flowdrop-query-')));
  // The engine's process starts while the store is opened and listed.
  const workers = openers.openWorkers({ ...describeWorkers(folder), command: workerCommand(self) });
  workers.catch(() => {}); // `openArchive` reports it, unless something else failed before.
  try {
    const store = await openers.openStore(place.to);
    try {
      const calendar = await openers.readCalendar();
      const { lastSettled, firstWhole } = computeLookback(openers.clock.now(), calendar);
      const archive = await openArchive({
        store,
        access: await openers.readAccess(place.to),
        datasets: await listReadable(store, place),
        trades: place.trades,
        types: apiTypes ? 'api' : 'typed',
        lastSession: lastSettled ?? previousSessions(firstWhole, 1, calendar)[0] ?? firstWhole,
        calendar,
        folder,
        maxMemoryBytes: planWorkerMemory(readMemoryBytes()),
        signal,
        server,
        openWorkers: () => workers,
      });
      return await act(archive, folder);
    } finally {
      await store.close();
    }
  } finally {
    await workers.then(
      (pool) => pool.close(),
      () => {},
    );
    await server?.engine.close();
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** The document that `--json` prints if the answer was written to a file. */
function describeAnswer({ coverage, cost }: ArchiveAnswer): object {
  return {
    datasets: coverage.map(({ dataset, dates, missing, degraded, unsummarized }) => ({
      ...{ dataset, dates, missing, degraded, unsummarized },
    })),
    // A server does not say what it read.
    row_groups: cost?.rowGroups ?? null,
    row_groups_pruned: cost?.prunedRowGroups ?? null,
    bytes_from_s3: cost?.s3Bytes ?? null,
  };
}

/** What the answer is based on, and what it lacks. @param ms time it took */
function describeNotes({ coverage, cost }: ArchiveAnswer, ms: number): string {
  const counted = cost && [
    `${formatCount(cost.rowGroups)} of ${formatCount(cost.rowGroups + cost.prunedRowGroups)} row groups read`,
    ...(cost.s3Bytes > 0 ? [`${formatBytes(cost.s3Bytes)} from S3`] : []),
  ];
  const read = [...(counted ?? ['read by the server']), formatDuration(ms)];
  const dates = coverage.map(
    (one) =>
      `${formatCount(one.dates.length)} of ${formatCount(one.sealed.length)} sealed dates${coverage.length > 1 ? ` of ${one.dataset}` : ''}`,
  );
  const lines = coverage.flatMap((one) =>
    describeGaps(one).map((line) => (coverage.length > 1 ? `${one.dataset}: ${line}` : line)),
  );
  return `${[...lines, [...dates, ...read].join(', ')].join('\n')}\n`;
}

function describeGaps({ missing, degraded, unsummarized, lacking }: Coverage): readonly string[] {
  const gaps = [
    ['missing, not in the answer', missing],
    ['degraded, known to be incomplete', degraded],
    ['without a summary, not in the answer', unsummarized],
    ...Array.from(lacking, ([name, dates]) => [`without the column ${name}, which is empty there`, dates] as const),
  ] as const;
  return gaps.filter(([, dates]) => dates.length > 0).map(([what, dates]) => `${what}: ${nameDates(dates)}`);
}

function nameDates(dates: readonly string[]): string {
  const named = dates.slice(0, MAX_NAMED).join(', ');
  const more = dates.length - MAX_NAMED;
  return more > 0 ? `${named} and ${formatCount(more)} more` : named;
}
