/** Builds `dist/` once before the tests: the flow tests run the command as a user does, compiled and in a process of its own. */
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export function setup(): void {
  execFileSync('npx', ['tsc', '-p', 'tsconfig.json'], {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    stdio: 'inherit',
  });
}
