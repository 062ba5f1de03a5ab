/** The tool `report`: the numbers of a mailed report with their definitions, as the store keeps it. It computes none. */
import { plainName } from '../../archive/tables.ts';
import { Fault } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { type ArchiveChoice, findArchived, readArchivedParts } from '../../deliver/report-copies.ts';
import { REPORTS_PREFIX } from '../../ledger/layout.ts';
import { Ledger } from '../../ledger/ledger.ts';
import { type Change, LEVELS, readLevels } from '../../report/changes.ts';
import type { FlowReport } from '../../report/model.ts';
import { readNumber } from '../../report/number-values.ts';
import { NUMBERS, type ReportedNumber } from '../../report/numbers.ts';
import type { DigestPart } from '../../report/text/mail-view.ts';
import { usage } from '../context.ts';
import type { AskedStore } from '../query/asked-store.ts';
import { describeBasis } from './basis.ts';

/**
 * @param chosen job: default, the only one with reports
 * @throws Fault `JOB_UNCLEAR`, `REPORT_NOT_ARCHIVED`, `REPORT_AMBIGUOUS` (usage), `REPORT_UNREADABLE`, StoreFault
 */
export async function answerReport(asked: AskedStore, chosen: ArchiveChoice & { job?: string | undefined }, log: Log) {
  const { store } = asked;
  const jobs = await store.listFolders(REPORTS_PREFIX);
  const job = jobs.find((one) => one === (chosen.job ?? jobs[0]));
  if (job === undefined || (chosen.job === undefined && jobs.length > 1)) {
    const hint = jobs.length === 0 ? '`flowdrop report JOB` mails one.' : 'Name one of these jobs.';
    throw usage(`${store.url} has mailed reports of ${jobs.join(', ') || 'no job'}`, hint, 'JOB_UNCLEAR');
  }
  const found = await findArchived(store, job, chosen);
  const parts = (await readArchivedParts(store, log, { job, ...found })) ?? [];
  try {
    const basis = await Promise.all(parts.map((part) => describePart(asked, part)));
    return { job, ...found, parts: parts.flatMap((part) => ('report' in part ? listNumbers(part.report) : [])), basis };
  } catch (cause) {
    if (!(cause instanceof TypeError)) throw cause;
    const hint = `\`flowdrop report ${job} --show --date ${found.date}\` prints it as it was mailed.`;
    const what = `the report of ${found.date} was mailed by another version, and lacks numbers`;
    throw new Fault('REPORT_UNREADABLE', what, { hint, cause });
  }
}

function listNumbers(report: FlowReport) {
  const { dataset, date, revision, condition, degraded_reason, doubts, filter } = report.drop;
  const changes: Readonly<Record<string, Change | undefined>> = report.comparison.changes;
  const { levels, previousDate, share } = report.comparison;
  const beside = (change: Change | undefined) => ({ previous: change?.previous, median: change?.median });
  return {
    ...{ dataset, date, revision, condition, degraded_reason, doubts, filter },
    // The numbers below are those of its last session.
    week: report.week,
    // Of whole days before a half day, this share is compared.
    compared: { previous_date: previousDate, share_of_previous: share },
    numbers: NUMBERS.map((number) => {
      const { key, name, label, unit } = number;
      const value = readNumber(report, number);
      return { name, label, unit, value, ...beside(changes[key]), definition: define(number, report.drop) };
    }),
    levels: [...readLevels(report)].flatMap(([symbol, { values }]) =>
      Object.entries(values).map(([name, value]) => {
        const change = levels.find((one) => one.symbol === symbol && one.name === name);
        const { label, unit } = LEVELS[name as keyof typeof values]; // A key of these values.
        return { symbol, name, label, unit, value, ...beside(change) };
      }),
    ),
  };
}

/** SQL that gives the number again, a quotient of numbers, or words. */
function define({ sum, where, quotient, meaning }: ReportedNumber, { dataset, date }: FlowReport['drop']) {
  if (sum === undefined)
    return quotient?.map((key) => NUMBERS.find((one) => one.key === key)?.name).join(' / ') ?? meaning;
  const value = sum === 'records' ? 'count(*)' : `sum(${sum})`;
  const counted = `SELECT ${value} FROM ${plainName(dataset)}_counted WHERE date = '${date}'`;
  return where === undefined ? counted : `${counted} AND ${where}`;
}

/** The dates of the numbers: their own, and those that they are compared with. */
async function describePart(asked: AskedStore, part: DigestPart) {
  if ('pending' in part)
    return await describeBasis(asked, { dataset: part.title, dates: [], degraded: [], missing: [part.pending] });
  const { dataset, date, revision, condition } = part.report.drop;
  const { dates, missingDates: missing, degradedDates } = part.report.comparison;
  const degraded = condition === 'degraded' ? [date, ...degradedDates] : degradedDates;
  const now = (await new Ledger(asked.store, dataset).manifest(date))?.revision;
  const restated = `sealed again since, as revision ${now}: the mailed numbers are those of revision ${revision}`;
  return await describeBasis(asked, { dataset, dates: [date, ...dates], degraded, missing }, [
    ['restated', restated, now === undefined || now === revision ? [] : [date]],
  ]);
}
