/**
 * Questions and answers, line by line: on a terminal with editing and hidden secrets, from a pipe in order. Invariant:
 * every question gets a valid answer, or nothing is written.
 */
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { assertNotAborted, describeError, Fault, isFault } from '../../core/errors.ts';
import type { Terminal } from '../context.ts';

export interface Question {
  readonly text: string;
  /** The answer if the line is empty. */
  readonly fallback: string;
  /** Hidden while it is typed. */
  readonly isSecret?: boolean;
  /** @throws Fault if the answer is not allowed */
  check?(answer: string): void;
}

export interface Asker {
  /** @throws Fault `INPUT_ENDED` (usage), or the interruption */
  ask(question: Question): Promise<string>;
  close(): void;
}

export function openAsker(terminal: Terminal, signal: AbortSignal): Asker {
  const { stdin, inIsTerminal } = terminal;
  let isMuted = false;
  const output = new Writable({
    write(chunk: Buffer, _encoding, done) {
      if (!isMuted) terminal.err(chunk.toString());
      done();
    },
  });
  const lines = createInterface({
    input: stdin,
    terminal: inIsTerminal,
    output: inIsTerminal ? output : undefined,
    signal,
  });
  // Lines are buffered from here on: a pipe may deliver all at once.
  const iterator = lines[Symbol.asyncIterator]();

  const read = async ({ text, fallback, isSecret = false }: Question): Promise<string> => {
    const prompt = `${text}${fallback === '' || isSecret ? '' : ` [${fallback}]`}: `;
    lines.setPrompt(prompt);
    if (inIsTerminal) lines.prompt();
    else terminal.err(prompt);
    isMuted = isSecret;
    const next = await iterator.next();
    isMuted = false;
    // The Enter key was hidden too; input from a pipe is never shown.
    if (isSecret || !inIsTerminal) terminal.err('\n');
    assertNotAborted(signal);
    if (!next.done) return next.value.trim() || fallback;
    if (inIsTerminal) throw new Fault('INTERRUPTED', 'stopped; nothing was written', { kind: 'interrupted' });
    throw new Fault('INPUT_ENDED', `stdin ended before the question "${text}"; nothing was written`, {
      kind: 'usage',
      hint: 'Give one line per question (empty: the value in brackets), or use flags and --yes.',
    });
  };

  return {
    async ask(question) {
      for (;;) {
        const answer = await read(question);
        try {
          if (answer !== '') question.check?.(answer);
          return answer;
        } catch (error) {
          if (!isFault(error)) throw error;
          terminal.err(`  ${describeError(error)}${error.hint ? `\n  -> ${error.hint}` : ''}\n`);
        }
      }
    },
    close: () => lines.close(),
  };
}

/** Several answers in one line, separated by commas, semicolons or spaces. */
export function splitList(text: string): readonly string[] {
  return text.split(/[\s,;]+/).filter((part) => part !== '');
}
