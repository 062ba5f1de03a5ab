/**
 * Writes docs/commands.md from the table of commands, so that the page cannot differ from `--help`. The table has the
 * words; this file has only the page's first lines and its layout, as the formatter would set it.
 */
import { COMMAND_GROUPS, type CommandSpec, EXIT_CODE_MEANINGS, formatFlag } from '../../src/cli/command.ts';
import { COMMANDS, GLOBAL_OPTIONS } from '../../src/cli/commands.ts';
import { buildTable } from '../support/pages.ts';

const INTRO = `# Commands

For everyone who uses the command line: every command, its options and examples. This page is generated from the same table as \`flowdrop --help\`.

A JOB is the path of a job file, or its name in the \`jobs\` folder. Logs and progress go to stderr. In the clone and its subfolders type \`npx flowdrop\`; after \`npm link\`, and in the image, plain \`flowdrop\` ([systemd, Compose, Kubernetes](operations.md#how-to-run-these-commands)). Completion works for the name \`flowdrop\`: without \`npm link\`, first define \`flowdrop() { npx flowdrop "$@"; }\` in bash or zsh.`;

export function buildCommandsPage(): string {
  const listed = COMMANDS.filter(({ group }) => group !== undefined);
  const groups = Object.entries(COMMAND_GROUPS).map(([key, title]) => {
    const own = listed.filter(({ group }) => group === key);
    return [`## ${title.replace(/:$/, '')}`, ...own.map(buildCommand)].join('\n\n');
  });
  const codes = buildTable(
    ['exit code', 'meaning'],
    EXIT_CODE_MEANINGS.map(([code, meaning]) => [String(code), meaning]),
  );
  const globals = buildOptions(GLOBAL_OPTIONS);
  const parts = [INTRO, '## Exit codes', codes, '## Options of every command', globals, ...groups];
  return `${parts.join('\n\n')}\n`;
}

function buildCommand({ name, argument, summary, options, notes, examples = [] }: CommandSpec): string {
  const words = [name, argument?.syntax.replace(/[<>]/g, '').toUpperCase()];
  const typed = examples.map(([line, what]) => (what === '' ? line : `# ${what}\n${line}`));
  return [
    `### \`${words.filter(Boolean).join(' ')}\``,
    `${capitalize(summary)}.${notes === undefined ? '' : ` ${notes.replaceAll('\n', ' ')}`}`,
    ...(argument === undefined ? [] : [`\`${argument.syntax}\`: ${argument.text}${listChoices(argument.choices)}.`]),
    ...(Object.keys(options).length === 0 ? [] : [buildOptions(options)]),
    ...(typed.length === 0 ? [] : [`\`\`\`sh check\n${typed.join('\n')}\n\`\`\``]),
  ].join('\n\n');
}

function buildOptions(options: CommandSpec['options']): string {
  const rows = Object.entries(options).map(([key, spec]) => [
    `\`${formatFlag(key)}${spec.value === '' ? '' : ` ${spec.value.toUpperCase()}`}\``,
    `${spec.text}${listChoices(spec.choices?.map(String))}`.replaceAll('|', '\\|'),
  ]);
  return buildTable(['option', 'meaning'], rows);
}

function listChoices(choices: readonly string[] | undefined): string {
  return choices === undefined ? '' : `: ${choices.map((one) => `\`${one}\``).join(', ')}`;
}

function capitalize(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
}
