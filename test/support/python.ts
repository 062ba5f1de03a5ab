/**
 * A Python with the readers of a list in `test/contract`, from PyPI, in an environment of its own. Made once for a machine
 * and list of versions; test files that start side by side wait for each other.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isMissing } from './external.ts';

export interface Python {
  readonly path: string;
  /** Why tests with it are skipped. */
  readonly isMissing: boolean;
}

/**
 * @param list of versions: most readers, DuckDB with the extensions that its version has on PyPI, what runs a notebook, or
 *   the readers and Spark
 * @throws when `CI` is set and it cannot be had
 */
export function findPython(
  list:
    | 'requirements.txt'
    | 'requirements-duckdb.txt'
    | 'requirements-notebook.txt'
    | 'requirements-spark.txt' = 'requirements.txt',
): Python {
  const requirements = new URL(`../contract/${list}`, import.meta.url).pathname;
  const base = new URL('../contract/requirements.txt', import.meta.url).pathname;
  const lists = Buffer.concat([readFileSync(requirements), readFileSync(base)]);
  const digest = createHash('sha256').update(lists).digest('hex').slice(0, 12);
  const place = join(tmpdir(), `flowdrop-test-python-${digest}`);
  const path = join(place, 'bin', 'python');
  return { path, isMissing: isMissing('Python readers', existsSync(path) ? undefined : make(place, requirements)) };
}

/** @returns what stood in the way */
function make(place: string, requirements: string): string | undefined {
  const own = `${place}.${process.pid}`;
  try {
    for (const [command, ...words] of [
      ['python3', '-m', 'venv', own],
      [join(own, 'bin', 'python'), '-m', 'pip', 'install', '-q', '--disable-pip-version-check', '-r', requirements],
    ] as const) {
      const made = spawnSync(command, words, { encoding: 'utf8', timeout: 300_000 });
      if (made.status !== 0) return `${command} ${words[1]}: ${made.error?.message ?? made.stderr.slice(-500)}`;
    }
    // Scripts name the folder that they were made in, but `bin/python` finds its packages wherever it is.
    if (!existsSync(place)) renameSync(own, place);
    return undefined;
  } finally {
    rmSync(own, { recursive: true, force: true });
  }
}
