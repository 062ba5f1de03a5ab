/**
 * `flowdrop gap accept JOB DATE --reason TEXT` acknowledges a gap that will not be filled; `flowdrop gap list JOB` prints
 * the gaps of a job. An accepted gap is in the ledger with who, when and why.
 */
import { Fault } from '../core/errors.ts';
import { readJob } from '../job/job-folder.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { type AcceptedGap, type DateStatus, describeAccepted, isAcceptable } from '../state/documents.ts';
import { assertDate, type Call, type Cli, nameUser, usage, withLedger } from './context.ts';
import { readStatus } from './status/read.ts';
import { formatTable } from './terminal/text.ts';

const USAGE = 'flowdrop gap accept JOB DATE --reason TEXT';

export async function gap(cli: Cli, { argument, options }: Call<'gap'>) {
  const [action, name, date, ...more] = argument;
  const isList = action === 'list' && date === undefined;
  if ((!isList && action !== 'accept') || name === undefined || more.length > 0) {
    const message = 'gap takes an action and a job; the actions are `accept` and `list`';
    throw usage(message, `${USAGE}, or: flowdrop gap list JOB`, 'ARGUMENTS_INVALID');
  }
  const { openers, print } = cli;
  const job = await readJob(name, cli.globals.jobs);
  const { fault, dates } = (await readStatus(openers, job)).document;
  if (fault !== null) throw new Fault('STORE_UNREAD', `the store could not be read: ${fault}`);
  if (isList) {
    const gaps = dates.filter(({ condition }) => condition !== 'available');
    const cells = gaps.map((one) => [one.date, one.condition, one.accepted ? describeAccepted(one.accepted) : '']);
    return print(gaps, [gaps.length === 0 ? 'No gaps.' : formatTable(['date', 'condition', 'accepted'], cells)]);
  }
  const day = date ?? '';
  const { reason, by = nameUser() } = options;
  const condition = findGap(day, dates, reason);
  const accepted = { condition, reason: reason?.trim() ?? '', by, at: new Date(openers.clock.now()).toISOString() };
  const accept = async (ledger: Ledger) => {
    // The record first: `condition.json` repeats it at once, and every run does so again.
    await ledger.acceptGap(day, accepted);
    const document = await ledger.conditions();
    const entries = [...document.entries.values()];
    const changed = entries.map((entry) => (entry.date === day ? { ...entry, accepted } : entry));
    await ledger.writeConditions(changed, document);
  };
  await withLedger(openers, job, accept, 'run');
  return print({ job: job.name, date, ...accepted }, [`${date}: ${condition}, ${describeAccepted(accepted)}`]);
}

/** @throws Fault `DATE_INVALID`, `REASON_MISSING`, `NOT_A_GAP` (usage) */
function findGap(date: string, dates: readonly DateStatus[], reason = ''): AcceptedGap['condition'] {
  assertDate('DATE', date);
  if (reason.trim() === '')
    throw usage('--reason is missing; people who read the status later need it', USAGE, 'REASON_MISSING');
  const condition = dates.find((one) => one.date === date)?.condition;
  if (isAcceptable(condition)) return condition;
  throw usage(
    `${date} is ${condition ?? 'not a known date of the job'}; only a missing, degraded or expired date can be accepted`,
    condition === 'pending' ? 'It can still be exported: flowdrop run JOB' : 'flowdrop gap list JOB',
    'NOT_A_GAP',
  );
}
