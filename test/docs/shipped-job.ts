/** Drops of a real run, for the snippets of the pages: the shipped job over generated sessions, in a reader's folder. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { flowdrop, REPO, startService } from '../support/flowdrop.ts';

interface ShippedRun {
  /** What the source has. */
  readonly generated?: readonly string[];
  readonly command?: readonly string[];
  /** The job file is shipped otherwise. */
  readonly change?: (text: string) => string;
  readonly env?: Readonly<Record<string, string>>;
}

/** The job is in the folder `jobs` of `cwd`, where commands look for it. */
export async function runShipped(
  cwd: string,
  {
    generated = ['--generate', '2', '--generate-rows', '500'],
    command = ['run', 'nightly-trades', '--no-report'],
    change = (text) => text,
    env = {},
  }: ShippedRun = {},
): Promise<void> {
  const shipped = await readFile(join(REPO, 'jobs', 'nightly-trades.yaml'), 'utf8');
  await mkdir(join(cwd, 'jobs'), { recursive: true });
  await writeFile(join(cwd, 'jobs', 'nightly-trades.yaml'), change(shipped));
  const service = await startService(generated);
  try {
    const run = await flowdrop(command, { cwd, env: { ...service.env, ...env } });
    expect(run.code, run.stderr).toBe(0);
  } finally {
    await service.stop();
  }
}
