/**
 * The colours of charts. Colour-blind readers can distinguish bullish from bearish (blue and orange, with grey between).
 * A mail has each chart in a light and a dark palette; a page draws its charts once, in colours that its style sheet sets.
 */
export const LIGHT = {
  ground: '#ffffff',
  ink: '#3b4654',
  /** Lines of the grid. */
  faint: '#e4e8ed',
  /** The axis, and the line at zero. */
  axis: '#8a94a0',
  bullish: '#1f6fb5',
  neutral: '#b9c1ca',
  bearish: '#d9731a',
  spot: '#17212d',
  zeroGamma: '#6b3fa0',
  callWall: '#17609f',
  putWall: '#a54808',
};

export type Palette = Readonly<typeof LIGHT>;

/** The ground is that of the mail in dark mode. */
export const DARK: Palette = {
  ground: '#161e28',
  ink: '#c9d3de',
  faint: '#2c3846',
  axis: '#76828f',
  bullish: '#4a97dc',
  neutral: '#7b8896',
  bearish: '#e58a3c',
  spot: '#f2f5f8',
  zeroGamma: '#bd9cf0',
  callWall: '#74b6f2',
  putWall: '#f2a766',
};

/** Names of the page's own colours: `--chart-ink` and so on. */
export const PAGE: Palette = Object.fromEntries(
  Object.keys(LIGHT).map((name) => [name, name === 'ground' ? 'transparent' : `var(${variableOf(name)})`]),
) as Palette;

/** The declarations of a palette for a style sheet. */
export function declareColours(palette: Palette): string {
  return Object.entries(palette)
    .map(([name, colour]) => `${variableOf(name)}: ${colour};`)
    .join(' ');
}

function variableOf(name: string): string {
  return `--chart-${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** A colour as `#rrggbb`. */
export const COLOUR = /^#[0-9a-f]{6}$/i;

/** WCAG 2.1, 1.4.3: contrast of text. */
const READABLE = 4.5;
/** Steps from the colour to black or white. */
const STEPS = 100;

interface Accent {
  /** The colour as it was chosen; null: none was. */
  readonly chosen: string | null;
  /** Links, and the ground of white text, on white. */
  readonly light: string;
  /** Links, and the ground of dark text, in dark mode. */
  readonly dark: string;
}

/** Colours of a report without one of its own. */
const USUAL: Accent = { chosen: null, light: LIGHT.callWall, dark: DARK.callWall };

/** The chosen colour, darkened for light ground and lightened for dark ground as far as text needs it, and no further. */
export function buildAccent(chosen: string | null): Accent {
  if (chosen === null) return USUAL;
  return { chosen, light: shade(chosen, LIGHT.ground, '#000000'), dark: shade(chosen, DARK.ground, '#ffffff') };
}

/** Contrast ratio of two colours, 1 to 21 (WCAG 2.1). */
export function contrastOf(a: string, b: string): number {
  const [darker = 0, lighter = 0] = [luminanceOf(a), luminanceOf(b)].sort((x, y) => x - y);
  return (lighter + 0.05) / (darker + 0.05);
}

/** The nearest mix of the colour with `end` that is readable on `ground`. */
function shade(colour: string, ground: string, end: string): string {
  for (let step = 0; step < STEPS; step += 1) {
    const mixed = mix(colour, end, step / STEPS);
    if (contrastOf(mixed, ground) >= READABLE) return mixed;
  }
  return end;
}

function mix(from: string, to: string, part: number): string {
  const ends = channelsOf(to);
  return `#${channelsOf(from)
    .map((value, index) => Math.round(value + ((ends[index] ?? 0) - value) * part))
    .map((value) => value.toString(16).padStart(2, '0'))
    .join('')}`;
}

function channelsOf(colour: string): readonly number[] {
  return [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
}

function luminanceOf(colour: string): number {
  const [red = 0, green = 0, blue = 0] = channelsOf(colour).map((channel) => {
    const value = channel / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
