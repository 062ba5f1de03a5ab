/**
 * The shape of a row of the command table, and what a command receives by it: the types of a call follow from the row's
 * argument and options. Nothing here depends on a parser.
 */
/** One option. `T`: the type of its value in the command. */
export interface OptionSpec<T = unknown> {
  readonly kind: 'flag' | 'text' | 'number' | 'list';
  /** Name of the value in the help; empty for a flag. */
  readonly value: string;
  readonly text: string;
  readonly choices?: readonly T[] | undefined;
  /** Options that contradict it. */
  readonly conflicts?: readonly string[] | undefined;
}

export interface CommandRow {
  /** Section of the help that lists it; without one it is not listed, because it is not for people. */
  readonly group?: keyof typeof COMMAND_GROUPS;
  readonly summary: string;
  readonly argument?: {
    readonly syntax: `<${string}>` | `[${string}]`;
    readonly text: string;
    readonly choices?: readonly string[];
  };
  /** Keyed by the command's own name for it: `newStore` is `--new-store` on the command line. In the order of the help. */
  readonly options?: Readonly<Record<string, OptionSpec>>;
  /** Shown below the options, in lines that fit into 80 cells. */
  readonly notes?: string;
  readonly examples?: readonly (readonly [typed: string, what: string])[];
}

export interface CommandSpec extends CommandRow {
  readonly name: string;
  readonly options: NonNullable<CommandRow['options']>;
}

type ArgumentOf<Row> = Row extends { readonly argument: { readonly syntax: infer Syntax } }
  ? Syntax extends `<${string}>`
    ? string
    : Syntax extends `[${string}...]`
      ? readonly string[]
      : string | undefined
  : undefined;

export type ValuesOf<Options> = {
  readonly [K in keyof Options]?: Options[K] extends OptionSpec<infer T> ? T : never;
};

/** What the command of a row receives. */
export interface CallOf<Row> {
  /** What follows the name of the command: nothing, one word, or several. */
  readonly argument: ArgumentOf<Row>;
  readonly options: Row extends { readonly options: infer Options } ? ValuesOf<Options> : object;
}

/** In the order of the help. */
export const COMMAND_GROUPS = {
  setUp: 'Setting up:',
  daily: 'Every day:',
  data: 'The data:',
  service: 'The service:',
} as const;

export function flag(text: string, conflicts?: readonly string[]): OptionSpec<boolean> {
  return { kind: 'flag', value: '', text, conflicts };
}

export function text(value: string, text: string, conflicts?: readonly string[]): OptionSpec<string> {
  return { kind: 'text', value, text, conflicts };
}

export function number(value: string, text: string): OptionSpec<number> {
  return { kind: 'number', value, text };
}

export function choice<const T extends string>(value: string, choices: readonly T[], text: string): OptionSpec<T> {
  return { kind: 'text', value, text, choices };
}

/** Takes several words, also one by one. */
export function list(value: string, text: string): OptionSpec<readonly string[]> {
  return { kind: 'list', value, text };
}

/** Turns `newStore` into `--new-store`. */
export function formatFlag(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}
