/**
 * Programs that read what we write, as a second opinion: Python and Poppler. They are no requirement of flowdrop, so where
 * one is missing its tests are skipped aloud; in CI, whose script installs them, there is no way without.
 */
import { spawnSync } from 'node:child_process';
import { isMissing } from './external.ts';

/** @throws when `CI` is set and the program is missing: CI skips nothing */
export function hasProgram(program: 'python3' | 'pdftotext', packageName: string): boolean {
  const isThere = spawnSync(program, ['-v'], { input: '' }).error === undefined;
  return !isMissing(program, isThere ? undefined : `install ${packageName}`);
}

/** Standard output of a program; what it complains about fails the test. */
export function readWith(program: string, args: readonly string[], input: Uint8Array = new Uint8Array()): string {
  const run = spawnSync(program, args, { input, encoding: 'utf8', maxBuffer: 64_000_000 });
  if (run.status !== 0 || run.stderr !== '') throw new Error(`${program} ${args.join(' ')}: ${run.stderr}`);
  return run.stdout;
}
