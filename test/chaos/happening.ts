/** What happens again and again in a run, for those who wait until it has happened so often from now on. */
export class Happening {
  readonly #listeners = new Set<() => void>();

  note(): void {
    for (const listener of this.#listeners) listener();
  }

  /** Calls once, at the `count`th time. @returns a way to stop listening */
  on(count: number, act: () => void): () => void {
    let seen = 0;
    const listener = () => {
      seen += 1;
      if (seen === count) act();
    };
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
