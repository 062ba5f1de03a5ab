/**
 * What the help says beside what commands say of themselves: groups, examples and exit codes. Invariant: every command has
 * an entry, and every example is one that the commands take. A table: nothing is loaded for it.
 */
import type { Command } from 'commander';

export interface CommandHelp {
  readonly group: keyof typeof GROUPS;
  /** What is typed, and what it is for. */
  readonly examples: readonly (readonly [string, string])[];
}

/** In the order in which the help shows them. */
export const GROUPS = {
  setUp: 'Setting up:',
  daily: 'Every day:',
  data: 'The data:',
  service: 'The service:',
} as const;

export const COMMAND_HELP: Readonly<Record<string, CommandHelp>> = {
  demo: {
    group: 'setUp',
    examples: [
      ['flowdrop demo', 'three sessions, drops, a report: about two minutes'],
      ['flowdrop demo --rows 5000 --sessions 1', 'the same in some seconds'],
    ],
  },
  init: {
    group: 'setUp',
    examples: [
      ['flowdrop init', 'asks, and writes into this folder'],
      ['flowdrop init --yes', 'asks nothing'],
      [
        'flowdrop init worker --api-url https://api.example.com --api-key-file ~/.flow-key --to s3://bucket/drops --yes',
        'a folder of its own, drops to S3',
      ],
      ['flowdrop init --report-to desk@example.com --symbols SPY QQQ', 'with a report'],
    ],
  },
  doctor: {
    group: 'setUp',
    examples: [
      ['flowdrop doctor', 'all jobs of the folder'],
      ['flowdrop doctor nightly-trades', 'what one job needs'],
      [`flowdrop --json doctor | jq '.checks[] | select(.status != "ok")'`, 'only what is wrong'],
    ],
  },
  check: {
    group: 'setUp',
    examples: [
      ['flowdrop check', 'all job files of the folder'],
      ['flowdrop check jobs/nightly-trades.yaml', 'one file, wherever it is'],
      ['flowdrop check --live nightly-trades', "also sends the job's query, in test mode"],
    ],
  },
  schema: {
    group: 'setUp',
    examples: [
      ['flowdrop schema > job.schema.json', 'for an editor that checks YAML'],
      ["flowdrop schema | jq '.properties | keys'", 'the top-level keys'],
    ],
  },
  completion: {
    group: 'setUp',
    examples: [
      ['source <(flowdrop completion bash)', 'in ~/.bashrc'],
      ['source <(flowdrop completion zsh)', 'in ~/.zshrc, after compinit'],
      ['flowdrop completion fish | source', 'in ~/.config/fish/config.fish'],
    ],
  },
  plan: {
    group: 'daily',
    examples: [
      ['flowdrop plan', 'all jobs of the folder, and their total'],
      ['flowdrop plan nightly-trades', 'one job, date by date'],
      ["flowdrop --json plan nightly-trades | jq '.total.seconds'", 'for a script'],
    ],
  },
  run: {
    group: 'daily',
    examples: [
      ['flowdrop run nightly-trades', 'export what is not sealed, mail the reports'],
      ['flowdrop run jobs/nightly-trades.yaml --no-report', 'export only'],
      ['flowdrop --json run nightly-trades > result.json', 'the result as one document'],
    ],
  },
  backfill: {
    group: 'daily',
    examples: [
      ['flowdrop backfill nightly-trades --dry-run', 'what it would take, and what would be too late'],
      ['flowdrop backfill nightly-trades --from 2026-11-16 --to 2026-11-20', 'these dates, where not sealed'],
      ['flowdrop backfill nightly-trades --failed', 'what failed or is degraded'],
      ['flowdrop backfill nightly-trades --all --from 2026-11-20 --to 2026-11-20', 'again, restated where it differs'],
    ],
  },
  report: {
    group: 'daily',
    examples: [
      ['flowdrop report nightly-trades', 'to whoever has not got it'],
      ['flowdrop report nightly-trades --preview preview', 'as files, to nobody'],
      ['flowdrop report nightly-trades --date 2026-11-20 --only me@example.com', 'one date again, to one address'],
    ],
  },
  status: {
    group: 'daily',
    examples: [
      ['flowdrop status', 'all jobs of the folder'],
      ['flowdrop status nightly-trades', 'one job'],
      ['flowdrop --json status nightly-trades', 'for a script'],
    ],
  },
  start: {
    group: 'daily',
    examples: [
      ['flowdrop start', 'the jobs of ./jobs, until SIGTERM'],
      ['flowdrop --jobs /etc/flowdrop/jobs start', 'those of another folder'],
    ],
  },
  verify: {
    group: 'data',
    examples: [
      ['flowdrop verify nightly-trades', 'every sealed date'],
      ['flowdrop verify nightly-trades --date 2026-11-20', 'one date'],
      ['flowdrop verify nightly-trades --deep', 'and recounts at the source'],
    ],
  },
  query: {
    group: 'data',
    examples: [
      [
        'flowdrop query "SELECT symbol, sum(premium) AS p FROM RawOptionTrades GROUP BY symbol ORDER BY p DESC LIMIT 10"',
        '',
      ],
      ['flowdrop query --job nightly-trades --out day.parquet "SELECT * FROM RawOptionTrades"', ''],
      ['flowdrop query - --format csv < report.sql > report.csv', ''],
      ['flowdrop query --from-store s3://bucket/drops --dataset trades "SELECT count() FROM RawOptionTrades"', ''],
    ],
  },
  serve: {
    group: 'service',
    examples: [
      ['flowdrop serve --generate 3', 'three generated sessions, key cus_local'],
      ['flowdrop serve --data trades.parquet --port 8080', 'trades of a file'],
      ['flowdrop serve --data-dir data --key-file keys.yaml', 'kept data, keys of your own'],
    ],
  },
  key: {
    group: 'service',
    examples: [
      ['flowdrop key --name desk --file keys.yaml', 'a key for historical SQL'],
      ['flowdrop key --name trial --entitlement trialing', 'its entry is printed'],
    ],
  },
};

/** As `EXIT_CODES` has them. */
const EXIT_CODE_TEXT = `
Exit codes:
    0    done
    1    something outside failed; the same command may succeed later
    2    wrong flags, job file, settings or SQL; nothing was started
    3    finished, but a date is degraded, missing, expired or held back
    4    another run of the same job is active
    130  stopped by a signal; the same command goes on from there

New here? \`flowdrop demo\` needs no key. \`flowdrop init\` sets up a folder of your own, \`flowdrop doctor\` tries it.
\`flowdrop help COMMAND\` has examples.
`;

/** To be called when every command is registered. */
export function addHelp(program: Command): void {
  for (const command of program.commands) {
    const known = COMMAND_HELP[command.name()];
    if (!known) continue;
    command.helpGroup(GROUPS[known.group]);
    command.addHelpText('after', `\nExamples:\n${formatExamples(known.examples)}`);
  }
  program.commandsGroup('Help:').helpCommand('help [command]', 'what a command does, with examples');
  program.addHelpText('after', EXIT_CODE_TEXT).configureHelp({ subcommandTerm: formatTerm });
}

/** A long example has its line for itself: it is copied as it stands. */
function formatExamples(examples: CommandHelp['examples']): string {
  const width = Math.max(0, ...examples.map(([typed]) => typed.length).filter((length) => length <= MAX_ALIGNED));
  return examples
    .map(([typed, what]) => {
      if (what === '') return `  ${typed}\n`;
      if (typed.length > MAX_ALIGNED) return `  ${typed}\n      ${what}\n`;
      return `  ${typed.padEnd(width)}  ${what}\n`;
    })
    .join('');
}

const MAX_ALIGNED = 50;

/** Flags are in the command's own help: here they would only widen the column. */
function formatTerm(command: Command): string {
  const words = command.registeredArguments.map((argument) => {
    const name = `${argument.name()}${argument.variadic ? '...' : ''}`;
    return argument.required ? `<${name}>` : `[${name}]`;
  });
  return [command.name(), ...words].join(' ');
}
