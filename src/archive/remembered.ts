/** The last few results of short keys. Invariant: bounded; what was used longest ago is forgotten first. */

/** A desk asks the same again and again. */
const MAX_RESULTS = 256;
/** Longer keys are not remembered, so that all of it stays small. */
const MAX_KEY_CHARACTERS = 16_384;

export class Remembered<Result extends object | string> {
  readonly #results = new Map<string, Result>();

  get(key: string): Result | undefined {
    const known = this.#results.get(key);
    if (known !== undefined) this.set(key, known);
    return known;
  }

  set(key: string, result: Result): void {
    if (key.length > MAX_KEY_CHARACTERS) return;
    this.#results.delete(key);
    this.#results.set(key, result);
    const [oldest = key] = this.#results.keys();
    if (this.#results.size > MAX_RESULTS) this.#results.delete(oldest);
  }
}
