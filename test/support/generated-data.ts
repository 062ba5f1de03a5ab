/**
 * Data folders of services that generate sessions, which takes half of their start: the folder of one that has ended is
 * the folder of the next one with the same sessions, until the run of the tests ends.
 */
import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Set for the processes of one run of the tests; without it every service has a folder of its own. */
const ROOT_VARIABLE = 'FLOWDROP_TEST_GENERATED';
const IN_USE = 'in-use';
/** More would fill the disk. */
const MAX_ROWS = 100_000;
/** What the content of the folder depends on. */
const CONTENT_FLAGS = ['--generate', '--generate-rows', '--seed', '--as-of', '--scan-limit', '--order'];
/** With one of them a service has other data, or a folder of its own. */
const OTHER_FLAGS = ['--data-dir', '--data', '--chain', '--store', '--catalog', '--clickhouse-url', '--cluster'];

export interface GeneratedData {
  /** More arguments for the service. */
  readonly args: readonly string[];
  /** Keeps the folder for the next service, or removes it if this one did not end well. */
  release(hasEndedWell: boolean): Promise<void>;
}

/** @returns what removes all folders */
export function keepGeneratedData(): () => void {
  const root = mkdtempSync(join(tmpdir(), 'flowdrop-test-generated-'));
  mkdirSync(join(root, IN_USE));
  process.env[ROOT_VARIABLE] = root;
  return () => rmSync(root, { recursive: true, force: true, maxRetries: 3 });
}

/** @param args of `flowdrop serve` */
export async function takeGeneratedData(args: readonly string[]): Promise<GeneratedData> {
  const root = process.env[ROOT_VARIABLE];
  const flagValue = (flag: string) => (args.includes(flag) ? args[args.indexOf(flag) + 1] : undefined);
  const rows = Number(flagValue('--generate')) * Number(flagValue('--generate-rows'));
  const isKept = rows <= MAX_ROWS && args.includes('--as-of') && !args.some((arg) => OTHER_FLAGS.includes(arg));
  if (root === undefined || !isKept) return { args: [], release: async () => undefined };
  const shelf = join(root, encodeURIComponent(CONTENT_FLAGS.map((flag) => flagValue(flag) ?? '').join(' ')));
  const folder = join(root, IN_USE, randomUUID());
  await mkdir(shelf, { recursive: true });
  for (const name of await readdir(shelf)) {
    // Another process may have taken it.
    const isMine = await rename(join(shelf, name), folder).then(
      () => true,
      () => false,
    );
    if (isMine) break;
  }
  return {
    args: ['--data-dir', folder],
    async release(hasEndedWell) {
      if (hasEndedWell) await rename(folder, join(shelf, randomUUID()));
      else await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}
