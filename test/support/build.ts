/**
 * Before the tests: builds `dist/` once, because the flow tests run the command as a user does, compiled and in a process
 * of its own, and makes a place for the data that services generate.
 */
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { keepGeneratedData } from './generated-data.ts';

/** @returns the teardown */
export function setup(): () => void {
  execFileSync('npx', ['tsc', '-p', 'tsconfig.json'], {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    stdio: 'inherit',
  });
  return keepGeneratedData();
}
