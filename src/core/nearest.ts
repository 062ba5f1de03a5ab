/**
 * Suggests the word that the user most likely meant: for misspelled keys, jobs and settings. Pure. commander does this
 * for commands.
 */

/** One edit is allowed for every 4 characters of the longer word: at least one, at most three. */
const CHARACTERS_AN_EDIT = 4;
const MOST_EDITS = 3;

/** The candidate closest to the word, or the first of equals; `undefined` when none is close. Ignores case. */
export function findNearest(word: string, candidates: readonly string[]): string | undefined {
  let nearest: string | undefined;
  let fewest = Number.POSITIVE_INFINITY;
  for (const candidate of candidates) {
    const edits = countEdits(word.toLowerCase(), candidate.toLowerCase());
    const longer = Math.max(word.length, candidate.length);
    const allowed = Math.min(MOST_EDITS, Math.max(1, Math.floor(longer / CHARACTERS_AN_EDIT)));
    // With as many edits as characters, any word would match any other.
    if (edits > allowed || edits >= longer || edits >= fewest) continue;
    nearest = candidate;
    fewest = edits;
  }
  return nearest;
}

/**
 * Fewest insertions, removals, replacements and swaps of neighbours that turn one text into the other: optimal string
 * alignment (Damerau 1964, restricted: no part is edited twice).
 */
function countEdits(a: string, b: string): number {
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
