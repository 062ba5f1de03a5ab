/**
 * How the reader of a next step starts this program: in a clone it is on nobody's PATH, so a bare `flowdrop` would not be
 * found there. Pure. Only for what is to be typed next; prose names commands by their name.
 */

/** Names that npm gives to what it starts: `npx flowdrop`, and `npm run demo`. */
const STARTED_BY_NPM: readonly string[] = ['npx', 'demo'];

/** @returns `npx flowdrop` or `flowdrop` */
export function nameProgram(env: Readonly<Record<string, string | undefined>>): string {
  return STARTED_BY_NPM.includes(env['npm_lifecycle_event'] ?? '') ? 'npx flowdrop' : 'flowdrop';
}
