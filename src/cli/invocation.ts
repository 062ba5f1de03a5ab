/**
 * How to start this program in a suggested next step: in a clone it is not on the PATH, so a bare `flowdrop` would not
 * be found. Pure. Only for commands to type next; prose uses the plain command name.
 */

/** Script names that npm sets for `npx flowdrop` and `npm run demo`. */
const STARTED_BY_NPM: readonly string[] = ['npx', 'demo'];

/** @returns `npx flowdrop` or `flowdrop` */
export function nameProgram(env: Readonly<Record<string, string | undefined>>): string {
  return STARTED_BY_NPM.includes(env['npm_lifecycle_event'] ?? '') ? 'npx flowdrop' : 'flowdrop';
}
