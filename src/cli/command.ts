/**
 * The type of a row of the command table, and of the function behind it. The compiler ties them together: the options
 * of a row are exactly the options of its function. Nothing here depends on a parser.
 */
import type { CliContext, GlobalOptions } from './context.ts';

/** What follows the name of a command: nothing, one word, or several. */
type CommandArgument = string | undefined | readonly string[];

/** The parsed command line. */
export interface CommandCall<A extends CommandArgument = undefined, O extends object = object> {
  readonly globals: GlobalOptions;
  readonly argument: A;
  readonly options: O;
}

/** The exit code; `undefined` means 0. */
export type ActionResult = Promise<number | undefined>;

/** Each action takes only the parts of the context that it uses. */
type CommandAction<A extends CommandArgument, O extends object> = (
  cli: CliContext,
  call: CommandCall<A, O>,
) => ActionResult;

/** One option. `T`: the type of its value in the command. */
export interface OptionSpec<T = unknown> {
  readonly kind: 'flag' | 'text' | 'number' | 'each' | 'list';
  /** Name of the value in the help; empty for a flag. */
  readonly value: string;
  readonly text: string;
  readonly choices?: readonly T[] | undefined;
  readonly default?: string | undefined;
  readonly isRequired?: boolean | undefined;
  /** For a flag: it is true unless `--no-NAME` is given. */
  readonly isNegated?: boolean | undefined;
  /** Options that contradict it. */
  readonly conflicts?: readonly string[] | undefined;
}

/**
 * Keyed by the command's own name for it: `newStore` is `--new-store` on the command line. In the order of the help.
 */
export type OptionTable<O extends object> = { readonly [K in keyof O]-?: OptionSpec<Exclude<O[K], undefined>> };

type ArgumentSyntax<A extends CommandArgument> = [A] extends [undefined]
  ? never
  : [A] extends [string]
    ? `<${string}>`
    : [A] extends [string | undefined]
      ? `[${string}]`
      : `[${string}...]`;

interface CommandRow<A extends CommandArgument, O extends object> {
  readonly name: string;
  /** Section of the help that lists it; without one it is not listed, because it is not for people. */
  readonly group?: CommandGroup;
  readonly summary: string;
  readonly argument?: {
    readonly syntax: ArgumentSyntax<A>;
    readonly text: string;
    readonly choices?: readonly string[];
  };
  readonly options: OptionTable<O>;
  /** Shown below the options. */
  readonly notes?: string;
  /** What to type, and what it does. */
  readonly examples?: readonly (readonly [typed: string, what: string])[];
  /** Whether it writes a log in which the run id leads to the lines of a failure. */
  readonly hasLog?: boolean;
  /** Imports the command and its dependencies. */
  load(): Promise<CommandAction<A, O>>;
}

/** A row of the table, for any argument and options. */
export interface CommandSpec extends Omit<CommandRow<never, never>, 'argument' | 'options'> {
  readonly argument?: { readonly syntax: string; readonly text: string; readonly choices?: readonly string[] };
  readonly options: Readonly<Record<string, OptionSpec>>;
}

/** What each exit code means. The codes are those of `EXIT_CODES`, and 0. */
export const EXIT_CODE_MEANINGS: readonly (readonly [code: number, meaning: string])[] = [
  [0, 'done'],
  [1, 'something outside failed; the same command may succeed later'],
  [2, 'wrong flags, job file, settings or SQL; nothing was started'],
  [3, 'finished, but lost a date, found a new gap, or held a date back'],
  [4, 'another run of the same job is active'],
  [130, 'stopped by a signal; the same command resumes'],
];

/** In the order of the help. */
export const COMMAND_GROUPS = {
  setUp: 'Setting up:',
  daily: 'Every day:',
  data: 'The data:',
  service: 'The service:',
} as const;

type CommandGroup = keyof typeof COMMAND_GROUPS;

/** Checks `options` against what the command takes; infers nothing from them. */
export function command<A extends CommandArgument = undefined, O extends object = object>(
  row: Omit<CommandRow<A, O>, 'options'> & { readonly options?: OptionTable<NoInfer<O>> },
): CommandSpec {
  return { ...row, options: row.options ?? {} };
}

type More = Partial<Pick<OptionSpec, 'default' | 'isRequired' | 'isNegated' | 'conflicts'>>;

export function flag(text: string, more: More = {}): OptionSpec<boolean> {
  return { kind: 'flag', value: '', text, ...more };
}

export function text(value: string, text: string, more: More = {}): OptionSpec<string> {
  return { kind: 'text', value, text, ...more };
}

export function number(value: string, text: string): OptionSpec<number> {
  return { kind: 'number', value, text };
}

/** Takes one of the given words. */
export function choice<const T extends string>(value: string, choices: readonly T[], text: string): OptionSpec<T> {
  return { kind: 'text', value, text, choices };
}

/** May be given several times. */
export function each(value: string, text: string): OptionSpec<readonly string[]> {
  return { kind: 'each', value, text };
}

/** Takes several words. */
export function list(value: string, text: string): OptionSpec<readonly string[]> {
  return { kind: 'list', value, text };
}

/** Turns `newStore` into `--new-store`. */
export function formatFlag(name: string, { isNegated = false }: OptionSpec): string {
  return `--${isNegated ? 'no-' : ''}${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}
