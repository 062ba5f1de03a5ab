/** `flowdrop report JOB --show`: the page of a mailed report, as it lies in the store's archive. Mails nobody. */
import { Fault } from '../core/errors.ts';
import type { Job } from '../job/job.ts';
import type { ActionResult } from './command.ts';
import type { CliContext, GlobalOptions } from './context.ts';

export interface ShowOptions {
  readonly date?: string | undefined;
  readonly report?: string | undefined;
  readonly revision?: string | undefined;
}

/** @throws Fault `REPORT_NOT_ARCHIVED`, `REPORT_AMBIGUOUS`, `REVISION_INVALID` (usage), StoreFault */
export async function showReport(
  { compose, terminal }: CliContext,
  globals: GlobalOptions,
  job: Job,
  { date, report, revision }: ShowOptions,
): ActionResult {
  const { readArchivedPage } = await import('../deliver/archived-pages.ts');
  const choice = { date, report, revision: revision === undefined ? undefined : parseRevision(revision) };
  const store = await compose.openStore(job.drop.to, { objects: job.drop.s3 });
  try {
    const page = await readArchivedPage(store, job.name, choice);
    terminal.out(globals.json ? `${JSON.stringify(page, undefined, 2)}\n` : page.html);
    return undefined;
  } finally {
    await store.close();
  }
}

function parseRevision(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new Fault('REVISION_INVALID', `--revision is a whole number from 1 on, not "${text}"`, { kind: 'usage' });
}
