/**
 * The colours of charts. Colour-blind readers can distinguish bullish from bearish (blue and orange, with grey between).
 * A mail has each chart in a light and a dark palette; a page draws its charts once, in colours that its style sheet sets.
 */
export interface Palette {
  readonly ground: string;
  readonly ink: string;
  /** Lines of the grid. */
  readonly faint: string;
  /** The axis, and the line at zero. */
  readonly axis: string;
  readonly bullish: string;
  readonly neutral: string;
  readonly bearish: string;
  readonly spot: string;
  readonly zeroGamma: string;
  readonly callWall: string;
  readonly putWall: string;
}

export const LIGHT: Palette = {
  ground: '#ffffff',
  ink: '#3b4654',
  faint: '#e4e8ed',
  axis: '#8a94a0',
  bullish: '#1f6fb5',
  neutral: '#b9c1ca',
  bearish: '#d9731a',
  spot: '#17212d',
  zeroGamma: '#6b3fa0',
  callWall: '#17609f',
  putWall: '#a54808',
};

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
) as { readonly [Name in keyof Palette]: string };

/** The declarations of a palette for a style sheet. */
export function declareColours(palette: Palette): string {
  return Object.entries(palette)
    .map(([name, colour]) => `${variableOf(name)}: ${colour};`)
    .join(' ');
}

function variableOf(name: string): string {
  return `--chart-${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}
