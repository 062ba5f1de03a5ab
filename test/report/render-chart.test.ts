/** The charts: labels that do not cover each other, text that is drawn, and the edges of what can be drawn. */
import { Resvg } from '@resvg/resvg-js';
import { describe, expect, it } from 'vitest';
import { buildSessionChart, buildStrikeChart, buildSymbolChart, CHART_WIDTH } from '../../src/report/draw/chart.ts';
import { type MarkerLevel, type PlacedMarker, placeMarkers } from '../../src/report/draw/marker.ts';
import { contrastOf, LIGHT } from '../../src/report/draw/palette.ts';
import { renderPicture } from '../../src/report/draw/picture.ts';
import { createRandom } from '../support/random.ts';
import { createReport, createSymbolExposure, createSymbolFlow } from './model-fixture.ts';

const AXIS = { min: 500, max: 700, width: 492, charWidth: 11.9 };

function createLevels(values: readonly number[]): readonly MarkerLevel[] {
  const names = ['Spot', 'Zero gamma', 'Call wall', 'Put wall'];
  return values.map((value, index) => ({ name: names[index] ?? 'Level', value, text: value.toFixed(2) }));
}

function overlap(a: PlacedMarker, b: PlacedMarker): boolean {
  return a.row === b.row && a.labelX < b.labelX + b.width && b.labelX < a.labelX + a.width;
}

/** A line reaches from the plot up to its own label's row. */
function crosses(line: PlacedMarker, label: PlacedMarker): boolean {
  return line.inside && line.row >= label.row && line.x > label.labelX && line.x < label.labelX + label.width;
}

describe('labels of levels', () => {
  it('cover no other label and are crossed by no line, wherever the levels lie', () => {
    const random = createRandom(7);
    for (let round = 0; round < 150; round += 1) {
      const spread = 10 ** (random() * 2.5);
      const markers = placeMarkers(createLevels([0, 1, 2, 3].map(() => 600 + (random() - 0.5) * spread)), AXIS);
      for (const [index, one] of markers.entries()) {
        for (const other of markers.slice(index + 1)) {
          expect(overlap(one, other), JSON.stringify(markers)).toBe(false);
          // A label in the middle that is longer than half of the plot has no room on either side of its line.
          const roomy = markers.every((marker) => marker.width < AXIS.width / 2 - 8);
          if (roomy) expect(crosses(one, other) || crosses(other, one), JSON.stringify(markers)).toBe(false);
        }
        expect(one.labelX).toBeGreaterThanOrEqual(0);
        expect(one.labelX + one.width).toBeLessThanOrEqual(AXIS.width);
      }
    }
  });

  it('of levels of one value are one label', () => {
    const markers = placeMarkers(createLevels([601.5, 596, 620, 620]), AXIS);
    expect(markers.map((marker) => marker.text)).toEqual(['Zero gamma 596.00', 'Spot 601.50', 'Call, put wall 620.00']);
  });

  it('of levels that only look like one place say each its own value', () => {
    const wide = { ...AXIS, min: AXIS.min - 5000, max: AXIS.max + 5000 };
    const texts = placeMarkers(createLevels([601.5, 600, 601.6]), wide).map((marker) => marker.text);
    expect(texts).toEqual(['Zero gamma 600.00', 'Spot 601.50', 'Call wall 601.60']);
  });

  it('of a level outside of the axis stand at its edge with an arrow and without a line', () => {
    const [low, spot, high] = placeMarkers(createLevels([600, 400, 900]), AXIS);
    expect(low).toMatchObject({ text: '← Zero gamma 400.00', inside: false });
    expect(spot).toMatchObject({ text: 'Spot 600.00', inside: true });
    expect(high).toMatchObject({ text: 'Call wall 900.00 →', inside: false });
  });

  it('are none where there is no level', () => {
    expect(placeMarkers([], AXIS)).toEqual([]);
  });
});

describe('a chart', () => {
  it('has its text drawn: another symbol of the same length is another picture', async () => {
    const draw = async (symbol: string) =>
      Buffer.from(await renderPicture(buildSymbolChart([createSymbolFlow(symbol, 1)], LIGHT), CHART_WIDTH)).toString(
        'base64',
      );
    const [spy, again, qqq] = [await draw('SPY'), await draw('SPY'), await draw('QQQ')];
    expect(spy === again).toBe(true);
    expect(spy === qqq).toBe(false);
  });

  it('by strike is as wide as the others, whatever its labels', async () => {
    for (const lead of [
      createSymbolExposure('SPY'),
      createSymbolExposure('SPY', { zeroGamma: null, callWall: null, putWall: null, spot: null }),
      createSymbolExposure('SPY', {
        strikes: [{ strike: 600, callGex: 1, putGex: 0, netGex: 1, netGexAfter: 1 }],
        zeroGamma: 2,
      }),
      createSymbolExposure('SPY', { strikes: [] }),
    ]) {
      const png = await renderPicture(buildStrikeChart(lead, LIGHT), CHART_WIDTH);
      expect(Buffer.from(png.subarray(16, 20)).readUInt32BE()).toBe(2 * CHART_WIDTH);
    }
  });

  it('by strike has nothing cut off at its sides, wherever the last label falls', async () => {
    for (const [spot, step] of [
      [4.2, 0.5],
      [18.5, 1],
      [601.5, 5],
      [715.23, 5],
      [1030, 10],
      [6_712, 25],
      [11_940, 50],
    ] as const) {
      for (const shift of [0, 0.3, 0.7]) {
        const chart = buildStrikeChart(createSymbolExposure('SPY', { spot: spot * (1 + shift / 100), step }), LIGHT);
        const columns = await readColumns(await renderPicture(chart, CHART_WIDTH), [0, 2 * CHART_WIDTH - 1]);
        for (const column of columns) expect(new Set(column), `${spot}`).toEqual(new Set([255]));
      }
    }
  });

  it('by strike leaves out far strikes without exposure, and no bar covers another', () => {
    const size = { putGex: -1, netGex: 0, netGexAfter: 0 };
    const strikes = [5, 10, 10.5, 11, 12, 15, 40, 90].map((strike) => ({
      strike,
      callGex: strike < 30 ? 1 : 0,
      ...size,
    }));
    const far = strikes.map((row) => (row.strike === 90 ? { ...row, putGex: 0 } : row));
    const text = JSON.stringify(buildStrikeChart(createSymbolExposure('VIX', { spot: 11, strikes: far }), LIGHT));
    const bars = [...text.matchAll(/"from":([\d.]+),"to":([\d.]+)/g)].map((match) => [
      Number(match[1]),
      Number(match[2]),
    ]);
    const calls = bars.filter((_, index) => index % 2 === 0);
    expect(calls).toHaveLength(7);
    for (const [index, bar] of calls.entries()) expect(bar[0]).toBeGreaterThan(calls[index - 1]?.[1] ?? 0);
  });

  it('has colours of text that are read on its ground', () => {
    const { halfHours, topSymbols, exposure } = createReport();
    const specs = [
      buildSessionChart(halfHours, LIGHT),
      buildSymbolChart(topSymbols, LIGHT),
      exposure.lead && buildStrikeChart(exposure.lead, LIGHT),
    ];
    const text = JSON.stringify(specs);
    expect(text).toContain('"background":"#ffffff"');
    const labels = [...text.matchAll(/"(?:labelColor|color)":"(#[0-9a-f]{6})"/g)].map((match) => match[1] ?? '');
    const strong = labels.filter((colour) => !['#1f6fb5', '#d9731a', '#8a94a0'].includes(colour));
    expect(new Set(strong).size).toBeGreaterThanOrEqual(5);
    for (const colour of strong) expect(contrastOf(colour, '#ffffff'), colour).toBeGreaterThanOrEqual(4.5);
  });
});

/** The bytes of columns of a PNG as wide as our charts. */
async function readColumns(png: Uint8Array, wanted: readonly number[]): Promise<readonly (readonly number[])[]> {
  const [width, height] = [16, 20].map((at) => Buffer.from(png).readUInt32BE(at)) as [number, number]; // Two numbers.
  const image = `<image width="${width}" height="${height}" href="data:image/png;base64,${Buffer.from(png).toString('base64')}"/>`;
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">${image}</svg>`;
  const { pixels } = new Resvg(svg).render();
  return wanted.map((column) =>
    Array.from({ length: height }, (_, row) => [
      ...pixels.subarray((row * width + column) * 4, (row * width + column) * 4 + 4),
    ]).flat(),
  );
}
