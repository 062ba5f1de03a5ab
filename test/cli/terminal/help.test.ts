/** The help's examples against the commands of the table: nothing is started. How help looks is in `program`. */
import { CommanderError } from 'commander';
import { describe, expect, it } from 'vitest';
import { COMMAND_GROUPS } from '../../../src/cli/command.ts';
import { COMMANDS } from '../../../src/cli/commands.ts';
import { buildParser } from '../../../src/cli/program.ts';
import { EXIT_CODES } from '../../../src/core/errors.ts';
import { flowdrop, REPO } from '../../support/flowdrop.ts';

const SILENT = { out: () => {}, err: () => {}, columns: { out: undefined, err: undefined } };

async function printHelp(words: readonly string[]): Promise<string> {
  let shown = '';
  const terminal = {
    ...SILENT,
    out: (text: string) => {
      shown += text;
    },
  };
  const parser = buildParser('0.0.0', terminal, async () => {});
  await expect(parser.parseAsync(words, { from: 'user' })).rejects.toThrow(CommanderError);
  return shown;
}

/** Parses words with the real commands. @returns the command that would have acted */
async function parse(words: readonly string[]): Promise<string | undefined> {
  let called: string | undefined;
  const parser = buildParser('0.0.0', SILENT, async ({ name }) => {
    called = name;
  });
  await parser.parseAsync(words, { from: 'user' });
  return called;
}

/** Words of the part of a shell line that is flowdrop's. */
function readWords(line: string): readonly string[] {
  const [, own = ''] = /flowdrop (.*)$/.exec(line.replace(/\)$/, '')) ?? [];
  const words = [...own.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, a, b, c]) => a ?? b ?? c ?? '');
  const end = words.findIndex((word) => ['|', '>', '<'].includes(word));
  return end === -1 ? words : words.slice(0, end);
}

const EXAMPLES = COMMANDS.flatMap(({ name, examples = [] }) => examples.map(([line]) => ({ name, line })));
const LISTED = COMMANDS.filter(({ group }) => group !== undefined);

describe('examples', () => {
  it('are two to four for every command that the help lists', () => {
    for (const { name, examples = [] } of LISTED) {
      expect(examples.length, name).toBeGreaterThanOrEqual(2);
      expect(examples.length, name).toBeLessThanOrEqual(4);
    }
  });

  it.each(EXAMPLES)('$line is what the command takes', async ({ name, line }) => {
    expect(await parse(readWords(line))).toBe(name);
  });

  it('would be refused if a flag of theirs were gone', async () => {
    await expect(parse(['backfill', 'nightly-trades', '--dry-ran'])).rejects.toThrow(CommanderError);
  });
});

describe('the help of a command', () => {
  it.each(LISTED.map(({ name }) => name))('%s shows its examples, by --help and by help', async (name) => {
    const [flag, word] = [await printHelp([name, '--help']), await printHelp(['help', name])];
    expect(flag.split('\nExamples:\n')).toHaveLength(2);
    expect(word).toBe(flag);
  });
});

it('the main help names commands, groups and exit codes, and no line of it is longer than 120 cells', async () => {
  const { code, stdout } = await flowdrop(['--help'], { cwd: REPO });
  expect(code).toBe(0);
  for (const { name } of LISTED) expect(stdout).toMatch(new RegExp(`^  ${name}\\b`, 'm'));
  for (const group of Object.values(COMMAND_GROUPS)) expect(stdout).toContain(`\n${group}\n`);
  const codes = [...(stdout.split('Exit codes:')[1] ?? '').matchAll(/^ {4}(\d+) /gm)].map(([, found]) => Number(found));
  expect(codes).toEqual([0, ...Object.values(EXIT_CODES)].sort((a, b) => a - b));
  for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(120);
});
