/**
 * `flowdrop gap accept JOB DATE --reason TEXT` acknowledges a gap that will not be filled; `flowdrop gap list JOB` prints
 * the gaps of a job. An accepted gap is in the ledger with who, when and why.
 */
import { Fault } from '../core/errors.ts';
import type { Job } from '../job/job.ts';
import { readJob } from '../job/job-folder.ts';
import { Ledger } from '../ledger/ledger.ts';
import { type AcceptedGap, describeAccepted, isAcceptable } from '../state/date-records.ts';
import type { DateStatus } from '../state/documents.ts';
import type { ActionResult } from './command.ts';
import type { Call } from './commands.ts';
import type { CliContext } from './context.ts';
import { assertDate } from './range.ts';
import { readStatus } from './status/job-status.ts';
import { formatTable } from './terminal/text-table.ts';
import { nameUser } from './user-name.ts';

type GapCli = Pick<CliContext, 'openers' | 'terminal'>;

const USAGE = 'flowdrop gap accept JOB DATE --reason TEXT';

export async function gap(
  cli: GapCli,
  { globals, argument: [action, name, date, ...more], options }: Call<'gap'>,
): ActionResult {
  const isList = action === 'list' && date === undefined;
  if ((!isList && action !== 'accept') || name === undefined || more.length > 0) {
    throw new Fault('ARGUMENTS_INVALID', 'gap takes an action and a job; the actions are `accept` and `list`', {
      kind: 'usage',
      hint: `${USAGE}, or: flowdrop gap list JOB`,
    });
  }
  const job = await readJob(name, globals.jobs);
  const { document } = await readStatus(cli.openers, job);
  if (document.fault !== null) throw new Fault('STORE_UNREAD', `the store could not be read: ${document.fault}`);
  if (isList) {
    listGaps(cli, globals.json, document.dates);
    return undefined;
  }
  const accepted = checkGap(date ?? '', document.dates, options, cli.openers.clock.now());
  await acceptGap(cli, job, date ?? '', accepted);
  if (globals.json) cli.terminal.out(`${JSON.stringify({ job: job.name, date, ...accepted }, undefined, 2)}\n`);
  else cli.terminal.out(`${date}: ${accepted.condition}, ${describeAccepted(accepted)}\n`);
  return undefined;
}

function listGaps({ terminal }: GapCli, asJson: boolean | undefined, dates: readonly DateStatus[]): void {
  const gaps = dates.filter(({ condition }) => condition !== 'available');
  if (asJson) {
    terminal.out(`${JSON.stringify(gaps, undefined, 2)}\n`);
    return;
  }
  const cells = gaps.map(({ date, condition, accepted }) => [
    date,
    condition,
    accepted ? describeAccepted(accepted) : '',
  ]);
  terminal.out(gaps.length === 0 ? 'No gaps.\n' : `${formatTable(['date', 'condition', 'accepted'], cells)}\n`);
}

/** @throws Fault `DATE_INVALID`, `REASON_MISSING`, `NOT_A_GAP` (usage) */
function checkGap(
  date: string,
  dates: readonly DateStatus[],
  { reason = '', by }: Call<'gap'>['options'],
  nowMs: number,
): AcceptedGap {
  assertDate('DATE', date);
  if (reason.trim() === '') {
    throw new Fault('REASON_MISSING', '--reason is missing; people who read the status later need it', {
      kind: 'usage',
      hint: USAGE,
    });
  }
  const condition = dates.find((one) => one.date === date)?.condition;
  if (!isAcceptable(condition)) {
    throw new Fault(
      'NOT_A_GAP',
      `${date} is ${condition ?? 'not a known date of the job'}; only a missing, degraded or expired date can be accepted`,
      {
        kind: 'usage',
        hint: condition === 'pending' ? 'It can still be exported: flowdrop run JOB' : 'flowdrop gap list JOB',
      },
    );
  }
  return { condition, reason: reason.trim(), by: by ?? nameUser(), at: new Date(nowMs).toISOString() };
}

/** The record first: `condition.json` repeats it at once, and every run does so again. */
async function acceptGap({ openers }: GapCli, job: Job, date: string, accepted: AcceptedGap): Promise<void> {
  const store = await openers.openStore(job.drop.to, { objects: job.drop.s3, use: 'run' });
  const ledger = new Ledger(store, job.drop.dataset);
  try {
    await ledger.acceptGap(date, accepted);
    const document = await ledger.conditions();
    const entries = [...document.entries.values()];
    await ledger.writeConditions(
      entries.map((entry) => (entry.date === date ? { ...entry, accepted } : entry)),
      document,
    );
  } finally {
    await store.close();
  }
}
