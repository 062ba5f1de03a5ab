/**
 * `flowdrop check [JOB...]`: validates job files; `--live` also sends each job's query to the API. `flowdrop schema`
 * prints their JSON Schema, generated from the schema that validates them.
 */
import { z } from 'zod';
import { membersOf } from '../api-contract/family.ts';
import { isHalfDay, listSessions, OPEN_SECOND } from '../calendar/session.ts';
import { addDays, formatWallClock, formatWallDate, parseWallClock, SECONDS_PER_DAY } from '../calendar/wall-clock.ts';
import { isFault } from '../core/errors.ts';
import type { Job } from '../job/job.ts';
import { assertDistinct, listJobFiles, readJob } from '../job/job-folder.ts';
import { jobSchema } from '../job/shape.ts';
import { sealsFrom } from '../plan/dates.ts';
import { buildPage } from '../plan/statement.ts';
import { locateRefusedSql, readSourceSql } from '../run/job-sql.ts';
import type { OpenedSource, OpenedSql } from '../run/open-source.ts';
import { type Call, type Cli, withSource, worstOf } from './context.ts';
import { describeFailure, hangText } from './terminal/text.ts';

const STATUS_WIDTH = 'FAIL  '.length;

/** A whole session with a tick of a weekly schedule is among so many days. */
const DAYS_AHEAD = 14;

export async function check(cli: Cli, { argument, options }: Call<'check'>) {
  const { terminal, globals } = cli;
  const wanted = argument.length > 0 ? argument : await listJobFiles(globals.jobs);
  const results: Awaited<ReturnType<typeof checkJob>>[] = [];
  const parsed: Job[] = [];
  for (const reference of wanted) results.push(await checkJob(cli, reference, options.live === true, parsed));
  // Wrapped here, because what is below a line begins under its job.
  const blocks = results.map(({ text }) => hangText(text, terminal.columns.out, STATUS_WIDTH));
  const documents = results.map(({ document }) => document);
  cli.print(documents, blocks.join(''));
  if (results.length === 0) terminal.err(`There are no job files in ${globals.jobs}; \`flowdrop init\` writes one.\n`);
  return worstOf(results.flatMap(({ exitCode }) => exitCode ?? []));
}

/** @param parsed jobs checked before, which this one must differ from @returns what is right with it, or its failure */
async function checkJob(cli: Cli, reference: string, isLive: boolean, parsed: Job[]) {
  const { red, green } = cli.terminal.style.out;
  try {
    const job = await readJob(reference, cli.globals.jobs);
    assertDistinct([...parsed, job]);
    parsed.push(job);
    const { source, drop, reports } = job;
    const { selected } = await readSourceSql(cli.openers, job);
    const rows = source.kind === 'snapshots' ? `${source.api} of ${source.symbols.join(', ')}` : source.table;
    const columns = (selected ?? source.columns).length;
    // Loads what renders reports only for a job that has some.
    const looks = reports.length > 0 ? await import('../deliver/report-look.ts') : undefined;
    const what = [
      `${columns} columns of ${rows} to ${drop.to}/${drop.dataset}`,
      ...describeUntyped(job, selected),
      ...(await describeEarly(cli, job)),
      ...describeFamilies(job),
      ...((await looks?.checkLooks(reports, cli.openers.templatesDir)) ?? []),
      ...(isLive ? [await askLive(cli, job)] : []),
    ];
    const message = what.join('; ');
    return { document: { job: reference, ok: true, message }, text: `${green('ok')}    ${reference}: ${message}\n` };
  } catch (error) {
    if (!isFault(error) || error.kind === 'interrupted') throw error;
    const { text, json, exitCode } = describeFailure(error, { redact: cli.openers.redact });
    // The same block as in every command, indented below the line that names its file.
    const block = text.trimEnd().replace(/^flowdrop: [A-Z0-9_]+: /, '');
    // Most faults name file and line themselves.
    const named = block.startsWith(`${reference}:`) ? block : `${reference}: ${block}`;
    const document = { job: reference, ok: false, ...json.error };
    return { document, text: `${red('FAIL')}  ${named.replaceAll('\n', '\n    ')}\n`, exitCode };
  }
}

/** Columns that the job file gives no type are kept as text, which a sum over the drop would refuse. */
function describeUntyped({ source }: Job, selected: readonly string[] | undefined): readonly string[] {
  const typed = new Set(source.columns.map(({ name }) => name));
  const untyped = (selected ?? []).filter((name) => !typed.has(name));
  if (untyped.length === 0) return [];
  const names = untyped.map((name) => name || 'one without a name (AS)').join(', ');
  return [`warning: kept as text, because \`source.types\` does not list them: ${names}`];
}

/** A schedule whose last run of a day comes before its session may be sealed exports each date a day late. */
async function describeEarly({ openers }: Cli, job: Job): Promise<readonly string[]> {
  if (job.schedule === undefined) return [];
  const { createTicks } = await import('../plan/ticks.ts');
  const calendar = await openers.readCalendar();
  const today = formatWallDate(openers.clock.now());
  const sessions = listSessions(today, addDays(today, DAYS_AHEAD), calendar);
  for (const date of sessions.filter((one) => !isHalfDay(one, calendar))) {
    const [open, end] = [parseWallClock(date, OPEN_SECOND), parseWallClock(date, SECONDS_PER_DAY)];
    const tickMs = createTicks(job.schedule).newest(open, end - 1);
    if (tickMs === undefined) continue;
    const from = sealsFrom(job, date, calendar);
    if (tickMs >= from) return [];
    const [at, earliest] = [tickMs, from].map((ms) => formatWallClock(ms).slice(11, 16));
    return [
      `warning: it runs at ${at}, but a session can be sealed from ${earliest} on (exchange time): each date is a day late`,
    ];
  }
  return [];
}

/** Watchlists that name a part of a family: its line is of the whole. */
function describeFamilies({ reports, families }: Job): readonly string[] {
  const lists = reports.flatMap(({ symbols, to }) => [symbols, ...to.map((reader) => reader.symbols ?? [])]);
  const notes = lists.flatMap((symbols) =>
    symbols.flatMap((symbol) => {
      const others = membersOf(symbol, families).filter((name) => !symbols.includes(name));
      return others.length === 0 ? [] : [`a watchlist names ${symbol}: its line includes ${others.join(', ')}`];
    }),
  );
  return [...new Set(notes)];
}

/** Sends the smallest request that shows whether a run would work. @returns who answers @throws Fault */
async function askLive(cli: Cli, job: Job): Promise<string> {
  return await withSource(cli, job, async (opened) => {
    if (opened.kind !== 'sql') return await greet(opened);
    // Test mode reads no columns. No trade has the first second of a day: the API reads the query and no rows.
    const date = formatWallDate(cli.openers.clock.now());
    const window = { date, from: { second: 0 }, to: { second: 1 } };
    const { signal } = cli;
    await opened.source.ask(buildPage(opened.job, window, 'open'), { signal }).catch(async (error: unknown) => {
      throw await locateRefusedSql(job, error);
    });
    return `the API at ${opened.source.url} accepts its query`;
  });
}

/** The smallest request to a source that is not asked by SQL: one symbol shows access. @returns what it shows @throws Fault */
export async function greet(opened: Exclude<OpenedSource, OpenedSql>): Promise<string> {
  const { signal } = opened;
  if (opened.kind === 'table') {
    await opened.source.describe(signal);
    return `the server at ${opened.source.url} has the table and its columns`;
  }
  for (const symbol of opened.job.source.symbols.slice(0, 1)) await opened.source.greet(symbol, signal);
  return `the API at ${opened.source.url} accepts the key`;
}

export async function schema({ terminal }: Cli) {
  const document = z.toJSONSchema(jobSchema, {
    io: 'input',
    unrepresentable: 'any',
    // The descriptions have the defaults, in the words of a job file.
    override: ({ jsonSchema }) => void delete jsonSchema.default,
  });
  terminal.out(`${JSON.stringify({ ...document, title: 'flowdrop job file' }, undefined, 2)}\n`);
  return undefined;
}
