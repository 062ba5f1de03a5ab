/** The word that somebody most likely meant: for misspelt keys, jobs and settings. Pure. Commands are commander's own. */

/** Edits allowed for each so many characters of the longer word: one in a short one, three at the most. */
const CHARACTERS_AN_EDIT = 4;
const MOST_EDITS = 3;

/** The candidate closest to the word, the first of several; `undefined` when none is close. Case does not count. */
export function findNearest(word: string, candidates: readonly string[]): string | undefined {
  let nearest: string | undefined;
  let fewest = Number.POSITIVE_INFINITY;
  for (const candidate of candidates) {
    const edits = countEdits(word.toLowerCase(), candidate.toLowerCase());
    const longer = Math.max(word.length, candidate.length);
    const allowed = Math.min(MOST_EDITS, Math.max(1, Math.floor(longer / CHARACTERS_AN_EDIT)));
    // As many edits as there are characters would turn any word into any other.
    if (edits > allowed || edits >= longer || edits >= fewest) continue;
    nearest = candidate;
    fewest = edits;
  }
  return nearest;
}

/**
 * Fewest characters to insert, remove, replace, or swap with their neighbour to turn one text into the other: optimal
 * string alignment (Damerau 1964, restricted: no part is edited twice).
 */
export function countEdits(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  const at = (i: number, j: number) => rows[i]?.[j] ?? 0;
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    rows.push(row);
    for (let j = 1; j <= b.length; j += 1) {
      const same = a[i - 1] === b[j - 1];
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const edits = Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + (same ? 0 : 1));
      row.push(swapped ? Math.min(edits, at(i - 2, j - 2) + 1) : edits);
    }
  }
  return at(a.length, b.length);
}
