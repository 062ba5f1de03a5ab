/**
 * Writes results, messages and log lines to a terminal while one line is redrawn in place. Invariant: each text starts
 * on a cleared line, and the drawn line comes back below it. It draws nothing itself.
 */

/** A line that stays the last of the terminal, such as a progress bar. */
export interface DrawnLine {
  /** Whether it is visible now: a stopped line is neither cleared nor drawn again. */
  isShown(): boolean;
  draw(): void;
}

interface LineKeeper {
  /** @param write writes to the terminal, on either stream */
  above(write: (text: string) => void): (text: string) => void;
  /** @returns the function that releases the line; there is one line at a time */
  keepLine(line: DrawnLine): () => void;
}

/** Moves to the first column and clears the line. */
const CLEAR = '\r\u001b[K';

/**
 * A bar that ends returns the cursor to the place saved at its start. By then that is a line of text further up, so the
 * place is saved again.
 */
const SAVE_CURSOR = '\u001b7';

export function createLineKeeper(): LineKeeper {
  let kept: DrawnLine | undefined;
  return {
    above: (write) => (text) => {
      if (!kept?.isShown()) {
        write(text);
        return;
      }
      write(`${CLEAR}${text}${text.endsWith('\n') ? '' : '\n'}${SAVE_CURSOR}`);
      kept.draw();
    },
    keepLine(line) {
      kept = line;
      return () => {
        if (kept === line) kept = undefined;
      };
    },
  };
}
