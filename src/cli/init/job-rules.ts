/** Whether what `flowdrop init` is about to write is a valid job, by the rules of job files; before a file is written. */
import { Fault, isFault } from '../../core/errors.ts';
import { assertDistinct, listJobFiles, readJob } from '../../job/job-folder.ts';
import { parseJob } from '../../job/parse.ts';
import { buildJobText, INIT_DEFAULTS, type JobChoice } from './init-files.ts';

const EXAMPLE: JobChoice = {
  name: INIT_DEFAULTS.name,
  to: INIT_DEFAULTS.to,
  recipients: ['desk@example.com'],
  symbols: [],
};

/** The rules of a job file, before there is one: the fault names no file. @throws Fault `ANSWER_INVALID` (usage) */
export function assertAllowed(part: { readonly [K in keyof JobChoice]?: JobChoice[K] | undefined }): void {
  const given = Object.fromEntries(Object.entries(part).filter(([, value]) => value !== undefined && value.length > 0));
  const choice = { ...EXAMPLE, ...given };
  try {
    const upper = choice.symbols.map((symbol) => symbol.toUpperCase());
    parseJob('', buildJobText({ ...choice, symbols: upper }));
  } catch (error) {
    if (!isFault(error) || error.code !== 'JOB_INVALID') throw error;
    throw new Fault('ANSWER_INVALID', error.message.replace(/^:\d+: /gm, ''), { kind: 'usage' });
  }
}

/**
 * Checks, before anything is written, that the job is valid and does not clash with others. @throws Fault `JOB_INVALID`
 */
export async function assertUsable(path: string, text: string, jobsFolder: string): Promise<void> {
  const job = parseJob(path, text);
  const others = [];
  for (const file of await listJobFiles(jobsFolder).catch(() => [])) {
    // Other invalid files do not matter here.
    const other = file === path ? undefined : await readJob(file, jobsFolder).catch(() => undefined);
    if (other) others.push(other);
  }
  assertDistinct([...others, job]);
}
