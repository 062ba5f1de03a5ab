/** The shape of a command: what `program.ts` gives to each, and what each gives back. Types only. */
import type { Command } from 'commander';
import type { CliContext, GlobalOptions } from './context.ts';

/** What a command's action gives back: an exit code other than 0, or nothing. */
export type ActionResult = Promise<number | undefined>;

/** Registers one command. `run` receives the positional arguments, the command's options and the global ones. */
export type Register = (program: Command, context: CliContext, act: Act) => void;

/** Wraps an action so that its result becomes the exit code. */
export type Act = (action: (globals: GlobalOptions) => ActionResult) => Promise<void>;
