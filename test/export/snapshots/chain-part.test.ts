/** Parts of a chain that is too large: nothing lost, nothing doubled, and found again by their texts. */
import { describe, expect, test } from 'vitest';
import {
  type ChainPart,
  cutPart,
  formatPart,
  listMissing,
  splitPart,
} from '../../../src/export/snapshots/chain-part.ts';
import { createRandom } from '../../support/random.ts';

const WHOLE: ChainPart = { symbol: 'SPX', filter: {} };

/** Whether a contract passes the filter, as the specification defines it: bounds are included. */
function holds({ filter }: ChainPart, contract: { readonly putCall: string; readonly strike: number }): boolean {
  const { putCall, strikeMin = 0, strikeMax = Number.POSITIVE_INFINITY } = filter;
  return (
    (putCall === undefined || putCall === contract.putCall) &&
    contract.strike >= strikeMin &&
    contract.strike <= strikeMax
  );
}

describe('the parts of a chain', () => {
  test('hold every contract once, however often they are split', () => {
    const seed = Date.now() % 1_000_000;
    const random = createRandom(seed);
    for (let round = 0; round < 50; round += 1) {
      const contracts = Array.from({ length: 40 }, () => ({
        putCall: random() < 0.5 ? 'PUT' : 'CALL',
        // Beyond the largest strike of an option symbol too: the outermost parts are open.
        strike: Math.floor(10 ** (random() * 9)),
      }));
      let parts: readonly ChainPart[] = [WHOLE];
      for (let splits = 0; splits < 40; splits += 1) {
        const at = Math.floor(random() * parts.length);
        const halves = parts[at] && splitPart(parts[at]);
        if (halves) parts = [...parts.slice(0, at), ...halves, ...parts.slice(at + 1)];
      }
      for (const contract of contracts) {
        const found = parts.filter((part) => holds(part, contract)).map(formatPart);
        expect(found, `seed ${seed}, ${JSON.stringify(contract)}`).toHaveLength(1);
      }
      const names = parts.map(formatPart);
      expect(new Set(names).size).toBe(parts.length);
    }
  });

  test('come down to a single strike, and no further', () => {
    let part: ChainPart = { symbol: 'SPX', filter: { putCall: 'PUT' } };
    const strike = 4_512_500;
    let splits = 0;
    for (let halves = splitPart(part); halves; halves = splitPart(part)) {
      part = halves.find((half) => holds(half, { putCall: 'PUT', strike })) ?? part;
      splits += 1;
      expect(splits).toBeLessThan(60);
    }
    expect(formatPart(part)).toBe('SPX PUT 4512.5..4512.5');
  });

  test('are what is left of a chain when others are staged, however these were cut', () => {
    const seed = Date.now() % 1_000_000;
    const random = createRandom(seed);
    for (let round = 0; round < 50; round += 1) {
      const strikes = [...new Set(Array.from({ length: 60 }, () => Math.floor(10 ** (3 + random() * 4))))].sort(
        (a, b) => a - b,
      );
      const starts = strikes.filter(() => random() < 0.2);
      let parts = cutPart(WHOLE, starts);
      for (let splits = 0; splits < 10; splits += 1) {
        const at = Math.floor(random() * parts.length);
        const halves = parts[at] && splitPart(parts[at]);
        if (halves) parts = [...parts.slice(0, at), ...halves, ...parts.slice(at + 1)];
      }
      const staged = parts.filter(() => random() < 0.6);
      const left = listMissing('SPX', [...staged.map(formatPart), 'SPXW', 'SPY CALL ..3']);
      for (const strike of [1, ...strikes, 10 ** 9]) {
        for (const putCall of ['CALL', 'PUT']) {
          const found = [...staged, ...left].filter((part) => holds(part, { putCall, strike }));
          expect(found, `seed ${seed}, ${putCall} ${strike}`).toHaveLength(1);
        }
      }
    }
    expect(listMissing('SPX', [])).toEqual([WHOLE]);
    expect(listMissing('SPX', ['SPX'])).toEqual([]);
  });
});
