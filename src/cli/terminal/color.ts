/** Terminal colors. Pure: the entry file decides whether there are any; the printed text never does. */

export type Paint = (text: string) => string;

/** Select Graphic Rendition of ECMA-48, section 8.3.117: the codes that switch each style on and off. */
const CODES = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  cyan: [36, 39],
  magenta: [35, 39],
} as const;

export type Style = Readonly<Record<keyof typeof CODES, Paint>>;

/** @param enabled if false, every function returns its text unchanged */
export function createStyle(enabled: boolean): Style {
  const paints = Object.entries(CODES).map(([name, [on, off]]) => {
    const paint: Paint = (text) => (enabled && text !== '' ? `\u001b[${on}m${text}\u001b[${off}m` : text);
    return [name, paint] as const;
  });
  return Object.fromEntries(paints) as Style; // Its keys are those of the codes.
}

export const PLAIN_STYLE: Style = createStyle(false);

type ColorEnvironment = Readonly<Partial<Record<'NO_COLOR' | 'FORCE_COLOR' | 'TERM', string | undefined>>>;

/**
 * Whether a stream gets colors: a terminal that supports them, unless NO_COLOR (no-color.org) has any value.
 * FORCE_COLOR wins over both, as in Node itself; `0` and `false` force colors off.
 */
export function hasColors(isTerminal: boolean, env: ColorEnvironment): boolean {
  const forced = env.FORCE_COLOR;
  if (forced !== undefined && forced !== '') return forced !== '0' && forced !== 'false';
  if (env.NO_COLOR) return false;
  return isTerminal && env.TERM !== 'dumb';
}
