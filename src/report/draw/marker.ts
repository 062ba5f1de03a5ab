/**
 * Places the labels of marked levels so that no label covers another and no line crosses a label, unless labels are
 * longer than half of the plot. Pure arithmetic in pixels. A label is left or right of its line, in a row above the
 * plot; the line reaches up to that row. Levels with the same value share a label. A level outside the axis has its
 * label at the edge and no line.
 */

export interface MarkerLevel {
  /** `Spot`, `Zero gamma`. */
  readonly name: string;
  readonly value: number;
  /** The value as printed. */
  readonly text: string;
}

interface Mark {
  /** `Spot 601.50`, or several names of one level. */
  readonly text: string;
  /** Name of the label's first level. */
  readonly name: string;
  /** Position of the line, pixels from the left of the plot. */
  readonly x: number;
  /** An upper bound of the label's width, pixels. */
  readonly width: number;
  /** Whether the level is within the axis: only then it has a line. */
  readonly inside: boolean;
}

export interface PlacedMarker extends Mark {
  /** Left end of the label. */
  readonly labelX: number;
  /** The end of the label that is at the line. */
  readonly align: 'left' | 'right';
  /** 0 is the lowest row of labels, next to the plot. */
  readonly row: number;
}

interface ChartAxis {
  readonly min: number;
  readonly max: number;
  /** Pixels. */
  readonly width: number;
  /** Width of a character, pixels; an upper bound keeps labels apart. */
  readonly charWidth: number;
}

/** Gap between a line and its label, and between a label and the next line, pixels. */
const GAP = 6;

/** With four levels, the exhaustive search covers 4,096 layouts. */
const MAX_LEVELS = 4;

/** Markers from left to right. @param levels at most four; more are not shown */
export function placeMarkers(levels: readonly MarkerLevel[], axis: ChartAxis): readonly PlacedMarker[] {
  const marks = mergeLevels(levels.slice(0, MAX_LEVELS), axis);
  let best: readonly PlacedMarker[] = [];
  let least = Number.POSITIVE_INFINITY;
  for (const aligns of listChoices(marks.length, ['left', 'right'] as const)) {
    for (const rows of listChoices(marks.length, [...marks.keys()])) {
      const layout = marks.map((mark, index) => place(mark, aligns[index] ?? 'left', rows[index] ?? 0, axis.width));
      const cost = costOf(layout);
      if (cost < least) [best, least] = [layout, cost];
    }
  }
  return best;
}

/** Every way to choose one of the options `count` times. */
function listChoices<Option>(count: number, options: readonly Option[]): readonly (readonly Option[])[] {
  if (count === 0) return [[]];
  return listChoices(count - 1, options).flatMap((chosen) => options.map((option) => [...chosen, option]));
}

/** Moves a label that would leave the plot back into it, over its own line. */
function place(mark: Mark, align: 'left' | 'right', row: number, plotWidth: number): PlacedMarker {
  const labelX = Math.max(0, Math.min(plotWidth - mark.width, wantedX(mark, align)));
  return { ...mark, align, row, labelX };
}

function wantedX({ x, width }: Mark, align: 'left' | 'right'): number {
  return align === 'left' ? x + GAP : x - GAP - width;
}

/**
 * Overlapping labels cost most, then lines through labels, then the pixels that labels were moved, then the highest
 * row, then the row of each label.
 */
function costOf(layout: readonly PlacedMarker[]): number {
  let cost = 0;
  let highest = 0;
  for (const [index, one] of layout.entries()) {
    highest = Math.max(highest, one.row);
    cost += one.row + Math.abs(one.labelX - wantedX(one, one.align)) * 100;
    for (const other of layout.slice(index + 1)) cost += costOfPair(one, other);
  }
  return cost + highest * 10;
}

function costOfPair(a: PlacedMarker, b: PlacedMarker): number {
  const covers = a.row === b.row && a.labelX < b.labelX + b.width + GAP && b.labelX < a.labelX + a.width + GAP;
  return (covers ? 1e12 : 0) + (isCrossed(a, b) ? 1e9 : 0) + (isCrossed(b, a) ? 1e9 : 0);
}

/** Whether the line crosses the label. A line reaches from the plot up to the row of its own label. */
function isCrossed(label: PlacedMarker, line: PlacedMarker): boolean {
  const within = line.x > label.labelX - GAP / 2 && line.x < label.labelX + label.width + GAP / 2;
  return line.inside && line.row >= label.row && within;
}

function mergeLevels(levels: readonly MarkerLevel[], axis: ChartAxis): readonly Mark[] {
  const placed = levels.map((level) => ({ level, ...placeLevel(level, axis) })).sort((a, b) => a.x - b.x);
  const groups: (typeof placed)[] = [];
  for (const one of placed) {
    const last = groups.at(-1);
    const before = last?.[0];
    const same = before?.inside === true && one.inside && one.level.value === before.level.value;
    if (same) last?.push(one);
    else groups.push([one]);
  }
  return groups.flatMap(([first, ...rest]) => {
    if (first === undefined) return [];
    const { x, inside, level } = first;
    const plain = `${joinNames([level.name, ...rest.map((one) => one.level.name)])} ${level.text}`;
    const text = inside ? plain : x === 0 ? `← ${plain}` : `${plain} →`;
    return [{ text, name: level.name, x, inside, width: text.length * axis.charWidth }];
  });
}

/** `Call, put wall`: writes a shared ending once. */
function joinNames(names: readonly string[]): string {
  const words = names.map((name, index) => (index === 0 ? name : name.toLowerCase()));
  const short = words.map((word, index) => (words[index + 1]?.endsWith(' wall') ? word.replace(/ wall$/, '') : word));
  return short.join(', ');
}

function placeLevel(
  { value }: MarkerLevel,
  { min, max, width }: ChartAxis,
): { readonly x: number; readonly inside: boolean } {
  if (value < min) return { x: 0, inside: false };
  if (value > max) return { x: width, inside: false };
  return { x: ((value - min) / (max - min)) * width, inside: true };
}
