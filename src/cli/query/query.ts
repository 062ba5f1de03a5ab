/** `flowdrop query "SQL"`: the API's SQL over the sealed drops of a dataset. Nothing of the archive is loaded before it runs. */
import { Option } from 'commander';
import type { Archive, ArchiveAnswer } from '../../archive/archive.ts';
import type { OutputFormat } from '../../archive/output.ts';
import { Fault } from '../../core/errors.ts';
import type { ActionResult, Register } from '../command.ts';
import type { CliContext, GlobalOptions } from '../context.ts';
import { workerCommand } from '../engine-worker.ts';

interface QueryOptions {
  readonly job?: string;
  readonly fromStore?: string;
  readonly dataset?: string;
  readonly format?: OutputFormat;
  readonly out?: string;
  readonly force?: boolean;
}

export const registerQuery: Register = (program, context, act) => {
  program
    .command('query')
    .description("the API's SQL over all sealed drops of a dataset, without its lookback and limits")
    .argument('<sql>', 'one SELECT over RawOptionTrades or RawOptionTradesMaxDateOnlyMV; - reads it from stdin')
    .option('--job <job>', 'job whose drops are asked; default: the only job of single trades in the jobs folder')
    .option('--from-store <location>', 'directory or s3://bucket/prefix instead of a job; needs --dataset')
    .option('--dataset <name>', 'dataset in that store')
    .addOption(
      new Option('--format <format>', 'default: by the name of --out; table on a terminal, else json').choices([
        'table',
        'json',
        'csv',
        'arrow',
        'parquet',
      ]),
    )
    .option('--out <file>', 'write the answer there, whole or not at all; never over a file that is there')
    .option('--force', 'let --out replace a file that is there')
    .action(async (sql: string, options: QueryOptions) => {
      await act((globals) => query(context, globals, sql, options));
    });
};

async function query(cli: CliContext, globals: GlobalOptions, argument: string, options: QueryOptions): ActionResult {
  const { chooseOutput } = await import('./output.ts');
  const output = await chooseOutput(cli, options, globals.json === true);
  const sql = argument === '-' ? await cli.terminal.readIn() : argument;
  if (sql.trim() === '') {
    throw new Fault('SQL_MISSING', 'the SQL is empty', {
      kind: 'usage',
      hint: 'Give one SELECT, or - and the SQL on stdin.',
    });
  }
  const { findDataset } = await import('./dataset.ts');
  const place = await findDataset(cli, globals, options);
  const startedMs = cli.compose.clock.now();
  return await withArchive(cli, place, async (archive, folder) => {
    const { join } = await import('node:path');
    const path = output.temporary ?? join(folder, 'answer');
    try {
      const answer = await archive.query({ sql, format: output.format, path });
      const { describeNotes } = await import('./notes.ts');
      cli.terminal.err(describeNotes(answer, archive.dates, cli.compose.clock.now() - startedMs));
      await output.deliver(path, () => describeAnswer(answer));
    } finally {
      const { rm } = await import('node:fs/promises');
      await rm(path, { force: true });
    }
    return undefined;
  });
}

async function withArchive(
  cli: CliContext,
  { to, dataset }: { readonly to: string; readonly dataset: string },
  act: (archive: Archive, folder: string) => ActionResult,
): ActionResult {
  const { mkdtemp, realpath, rm } = await import('node:fs/promises');
  const { tmpdir } = await import('node:os');
  const { planWorkerMemory, readMemoryBytes } = await import('../../core/machine.ts');
  const { join } = await import('node:path');
  const { openArchive } = await import('../../archive/archive.ts');
  const { readManifestOf } = await import('../../ledger/restating.ts');
  const { computeLookback } = await import('../../plan/dates.ts');
  const { previousSessions } = await import('../../calendar/session.ts');
  const { compose, signal, self } = cli;
  const store = await compose.openStore(to);
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'flowdrop-query-')));
  try {
    const calendar = await compose.readCalendar();
    const { lastSettled, firstWhole } = computeLookback(compose.clock.now(), calendar);
    const archive = await openArchive({
      store,
      access: await compose.readAccess(to),
      dataset,
      readManifest: (date, sizeBytes) => readManifestOf(store, dataset, date, sizeBytes),
      lastSession: lastSettled ?? previousSessions(firstWhole, 1, calendar)[0] ?? firstWhole,
      calendar,
      folder,
      maxMemoryBytes: planWorkerMemory(readMemoryBytes()),
      signal,
      openWorkers: (workers) => compose.openWorkers({ ...workers, command: workerCommand(self) }),
    });
    try {
      return await act(archive, folder);
    } finally {
      await archive.close();
    }
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    await store.close();
  }
}

/** What `--json` says of an answer that went into a file. */
function describeAnswer({ coverage, cost }: ArchiveAnswer): object {
  return {
    dates: coverage.dates,
    missing: coverage.missing,
    degraded: coverage.degraded,
    row_groups: cost.rowGroups,
    row_groups_pruned: cost.prunedRowGroups,
    bytes_from_s3: cost.s3Bytes,
  };
}
