/** `flowdrop upgrade`: moves a store of an earlier version to the present layout, and says what is done. */
import { Fault } from '../core/errors.ts';
import { formatCount } from '../core/units.ts';
import { readJob } from '../job/job-folder.ts';
import { upgradeStore } from '../ledger/upgrade-store.ts';
import type { ObjectOptions } from '../store/store.ts';
import type { ActionResult, CommandCall } from './command.ts';
import type { CliContext } from './context.ts';
import { assertDirectory } from './store-directory.ts';

interface UpgradeFlags {
  readonly job?: string;
}

/** Objects between two lines of progress. */
const NOTE_EVERY = 500;

export async function upgrade(
  cli: Pick<CliContext, 'cwd' | 'openers' | 'terminal'>,
  { globals, argument, options }: CommandCall<string | undefined, UpgradeFlags>,
): ActionResult {
  const { to, objects } = await findStore(argument, options.job, globals.jobs);
  await assertDirectory(cli.cwd, to, 'Check the path.');
  const { terminal, openers } = cli;
  const store = await openers.openStore(to, { objects, use: 'upgrade' });
  try {
    const result = await upgradeStore(store, ({ step, done, total }) => {
      if (done % NOTE_EVERY === 0 || done === total)
        terminal.err(
          `${step === 'copy' ? 'copied' : 'removed'} ${formatCount(done)} of ${formatCount(total)} objects\n`,
        );
    });
    if (globals.json) terminal.out(`${JSON.stringify({ store: store.url, ...result })}\n`);
    else if (result.removed === 0) terminal.out(`${store.url} already has the current layout; nothing to do.\n`);
    else {
      terminal.out(
        `Upgraded ${store.url}: ${formatCount(result.dates)} sealed dates of ${result.datasets.join(', ') || 'no dataset'}, ${formatCount(result.removed)} objects moved.\nCheck it: flowdrop verify JOB\n`,
      );
    }
    if (result.foreign > 0 && !globals.json)
      terminal.err(`${formatCount(result.foreign)} objects do not belong to flowdrop and were left in place.\n`);
    return undefined;
  } finally {
    await store.close();
  }
}

/** @throws Fault `STORE_AMBIGUOUS` (usage) unless exactly one of both is given */
async function findStore(
  argument: string | undefined,
  name: string | undefined,
  folder: string,
): Promise<{ readonly to: string; readonly objects?: ObjectOptions | undefined }> {
  if (argument !== undefined && name === undefined) return { to: argument };
  if (argument === undefined && name !== undefined) {
    const { drop } = await readJob(name, folder);
    return { to: drop.to, objects: drop.s3 };
  }
  throw new Fault('STORE_AMBIGUOUS', 'upgrade takes either a store or --job', {
    kind: 'usage',
    hint: 'flowdrop upgrade s3://bucket/prefix, or flowdrop upgrade --job JOB',
  });
}
