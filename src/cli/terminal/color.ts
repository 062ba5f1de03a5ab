/** Terminal colors. Pure: the entry file decides whether there are any; the printed text never does. */
import { inspect } from 'node:util';

export type Paint = (text: string) => string;

const NAMES = ['bold', 'dim', 'red', 'green', 'yellow', 'cyan', 'magenta'] as const;

export type Style = Readonly<Record<(typeof NAMES)[number], Paint>>;

/** @param enabled if false, every function returns its text unchanged */
export function createStyle(enabled: boolean): Style {
  const paints = NAMES.map((name) => {
    const [on, off] = inspect.colors[name] ?? [];
    const paint: Paint = (text) => (enabled && text !== '' ? `\u001b[${on}m${text}\u001b[${off}m` : text);
    return [name, paint] as const;
  });
  return Object.fromEntries(paints) as Style; // Its keys are those names.
}

export const PLAIN_STYLE: Style = createStyle(false);

type ColorEnvironment = Readonly<Partial<Record<'NO_COLOR' | 'FORCE_COLOR' | 'TERM', string | undefined>>>;

/**
 * Whether a stream gets colors: a terminal that supports them, unless NO_COLOR (no-color.org) has any value.
 * FORCE_COLOR wins over both, as in Node itself; `0` and `false` force colors off.
 */
export function hasColors(isTerminal: boolean, env: ColorEnvironment): boolean {
  const forced = env.FORCE_COLOR;
  if (forced) return forced !== '0' && forced !== 'false';
  return !env.NO_COLOR && isTerminal && env.TERM !== 'dumb';
}
