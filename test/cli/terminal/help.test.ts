/** The help's examples against the commands as they are registered: nothing is started. How help looks is in `program`. */
import { type Command, CommanderError } from 'commander';
import { describe, expect, it } from 'vitest';
import type { CliContext } from '../../../src/cli/context.ts';
import { buildProgram } from '../../../src/cli/program.ts';
import { COMMAND_HELP, GROUPS } from '../../../src/cli/terminal/help.ts';
import { EXIT_CODES } from '../../../src/core/errors.ts';
import { flowdrop, REPO } from '../../support/flowdrop.ts';

/** What the parser itself uses of its context: nothing else is asked for before a command acts. */
const CONTEXT = {
  terminal: { out: () => {}, err: () => {}, colors: { out: false, err: false }, columns: {} },
  compose: { version: '0.0.0' },
} as unknown as CliContext; // Registration reads no more of it.

async function printHelp(words: readonly string[]): Promise<string> {
  let shown = '';
  const terminal = { ...CONTEXT.terminal, out: (text: string) => (shown += text) };
  const program = buildProgram({ ...CONTEXT, terminal }, () => async () => {});
  await expect(program.parseAsync(words, { from: 'user' })).rejects.toThrow(CommanderError);
  return shown;
}

/** Parses words with the real commands. @returns whether a command would have acted */
async function parse(words: readonly string[]): Promise<boolean> {
  let acted = false;
  const program = buildProgram(CONTEXT, () => async () => {
    acted = true;
  });
  await program.parseAsync(words, { from: 'user' });
  return acted;
}

const commands = () =>
  buildProgram(CONTEXT, () => async () => {}).commands.filter((command) => !('_hidden' in command && command._hidden));

/** Words of the part of a shell line that is flowdrop's. */
function readWords(line: string): readonly string[] {
  const [, own = ''] = /flowdrop (.*)$/.exec(line.replace(/\)$/, '')) ?? [];
  const words = [...own.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, a, b, c]) => a ?? b ?? c ?? '');
  const end = words.findIndex((word) => ['|', '>', '<'].includes(word));
  return end === -1 ? words : words.slice(0, end);
}

const EXAMPLES = Object.entries(COMMAND_HELP).flatMap(([name, { examples }]) =>
  examples.map(([line]) => ({ name, line })),
);

describe('examples', () => {
  it('are there for every command that the help lists, two to four of each, and for no other', () => {
    expect(Object.keys(COMMAND_HELP).sort()).toEqual(
      commands()
        .map((command: Command) => command.name())
        .filter((name) => name !== 'help')
        .sort(),
    );
    for (const { examples } of Object.values(COMMAND_HELP)) {
      expect(examples.length).toBeGreaterThanOrEqual(2);
      expect(examples.length).toBeLessThanOrEqual(4);
    }
  });

  it.each(EXAMPLES)('$line is what the command takes', async ({ name, line }) => {
    const words = readWords(line);
    expect(words).toContain(name);
    expect(await parse(words)).toBe(true);
  });

  it('would be refused if a flag of theirs were gone', async () => {
    await expect(parse(['backfill', 'nightly-trades', '--dry-ran'])).rejects.toThrow(CommanderError);
  });
});

describe('the help of a command', () => {
  it.each(Object.keys(COMMAND_HELP))('%s shows its examples, by --help and by help', async (name) => {
    const [flag, word] = [await printHelp([name, '--help']), await printHelp(['help', name])];
    expect(flag.split('\nExamples:\n')).toHaveLength(2);
    expect(word).toBe(flag);
  });
});

it('the main help names groups and exit codes, and no line of it is longer than 120 cells', async () => {
  const { stdout } = await flowdrop(['--help'], { cwd: REPO });
  for (const group of Object.values(GROUPS)) expect(stdout).toContain(`\n${group}\n`);
  const codes = [...(stdout.split('Exit codes:')[1] ?? '').matchAll(/^ {4}(\d+) /gm)].map(([, code]) => Number(code));
  expect(codes).toEqual([0, ...Object.values(EXIT_CODES)].sort((a, b) => a - b));
  for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(120);
});
