/**
 * What is written to a terminal while a line there is redrawn in place: results, messages and log lines alike. Invariant:
 * each text begins on a cleared line, and the drawn line comes back below it. It draws nothing itself.
 */

/** A line that stays the last of the terminal, such as a progress bar. */
export interface DrawnLine {
  /** Whether it is there now: one that was stopped is neither cleared nor drawn again. */
  isShown(): boolean;
  draw(): void;
}

interface LineKeeper {
  /** @param write to the terminal, by whichever stream */
  above(write: (text: string) => void): (text: string) => void;
  /** @returns what releases the line; there is one at a time */
  keepLine(line: DrawnLine): () => void;
}

/** To the first column, and clears the line. */
const CLEAR = '\r\u001b[K';

/** A bar returns the cursor to the place saved at its start when it ends: by then that is a line of text further up. */
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
