/**
 * Writes docs/commands.md from the table of commands, so that the page cannot differ from `--help`. The table has the
 * words; this file has only the page's first lines and its layout, as the formatter would set it.
 */
import { COMMAND_GROUPS, type CommandSpec, formatFlag } from '../../src/cli/command.ts';
import { COMMANDS, GLOBAL_OPTIONS } from '../../src/cli/commands.ts';
import { EXIT_CODE_MEANINGS } from '../../src/core/errors.ts';

const INTRO = `# Commands

For everyone who uses the command line: every command with its options, generated from the same table as \`flowdrop --help\`.

A JOB is the path of a job file, or its name in the \`jobs\` folder; [JOB] is all of them by default. Logs go to stderr. In the clone type \`npx flowdrop\`; after \`npm link\`, and in the image, \`flowdrop\` ([systemd, Compose, Kubernetes](operations.md#how-to-run-these-commands)). For completion without \`npm link\`, first define \`flowdrop() { npx flowdrop "$@"; }\` in bash or zsh.`;

/** Commands whose options another page explains, with their defaults. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  query: 'query.md#options',
  mcp: 'mcp.md#options',
  serve: 'service.md#options',
};

/** What the first lines of the page say of JOB. */
const JOB = /^job file, or its name in the jobs folder(; default: all)?$/;

export function buildCommandsPage(): string {
  const listed = COMMANDS.filter(({ group }) => group !== undefined);
  const groups = Object.entries(COMMAND_GROUPS).map(([key, title]) => {
    const own = listed.filter(({ group }) => group === key);
    return [`## ${title.replace(/:$/, '')}`, ...own.map(buildCommand)].join('\n\n');
  });
  const codes = EXIT_CODE_MEANINGS.map(([code, meaning]) => `- ${code}: ${meaning}`).join('\n');
  const globals = buildOptions(GLOBAL_OPTIONS);
  const parts = [INTRO, '## Exit codes', codes, '## Options of every command', globals, ...groups];
  return `${parts.join('\n\n')}\n`;
}

function buildCommand({ name, argument, summary, options, notes, examples = [] }: CommandSpec): string {
  const words = [name, argument?.syntax.replace(/[<>]/g, '').toUpperCase()];
  // A line without an option says no more than the heading, and an option has its words above.
  const typed = examples
    .filter(([line]) => /--|[|<>]/.test(line))
    .map(([line, what]) => (what === '' || line.includes('--') ? line : `# ${what}\n${line}`));
  const page = ELSEWHERE[name];
  const listed = page === undefined ? buildOptions(options) : `Options: [${page.replace(/#.*/, '')}](${page}).`;
  return [
    `### \`${words.filter(Boolean).join(' ')}\``,
    `${capitalize(summary)}.${notes === undefined ? '' : ` ${notes.replaceAll('\n', ' ')}`}`,
    ...(argument === undefined || JOB.test(argument.text)
      ? []
      : [`\`${argument.syntax}\`: ${argument.text}${listChoices(argument.choices)}.`]),
    ...(Object.keys(options).length === 0 ? [] : [listed]),
    ...(typed.length === 0 ? [] : [`\`\`\`sh check\n${typed.join('\n')}\n\`\`\``]),
  ].join('\n\n');
}

function buildOptions(options: CommandSpec['options']): string {
  return Object.entries(options)
    .map(([key, spec]) => {
      const value = spec.value === '' ? '' : ` ${spec.value.toUpperCase()}`;
      return `- \`${formatFlag(key)}${value}\`: ${spec.text}${listChoices(spec.choices?.map(String))}`;
    })
    .join('\n');
}

function listChoices(choices: readonly string[] | undefined): string {
  return choices === undefined ? '' : `: ${choices.map((one) => `\`${one}\``).join(', ')}`;
}

function capitalize(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
}
