/**
 * The command table: what is typed, what the help says, and where the code is. The parser, the help, the completion and
 * the README's list follow this table. Invariant: a command is imported only when it is called, so that `--help` and a
 * key press of the completion load none.
 */
import { type CommandSpec, choice, command, each, flag, list, number, type OptionTable, text } from './command.ts';
import type { GlobalOptions } from './context.ts';
import { ENGINE_WORKER_COMMAND } from './engine-worker.ts';
import { LOCAL_KEY } from './local-key.ts';

/** Options of every command. */
export const GLOBAL_OPTIONS: OptionTable<GlobalOptions> = {
  json: flag('print one JSON document on stdout'),
  jobs: text('dir', 'folder of the job files', { default: 'jobs' }),
  debug: flag('more log lines, and stacks of errors'),
};

const JOB = { syntax: '<job>', text: 'job file, or its name in the jobs folder' } as const;

/** In the order of the help. */
export const COMMANDS: readonly CommandSpec[] = [
  command({
    name: 'demo',
    group: 'setUp',
    summary: 'run the shipped nightly job against a service with generated sessions, into ./out',
    options: {
      rows: text('rows', 'trades of each session', { default: '100000' }),
      sessions: text('sessions', 'trading sessions', { default: '3' }),
    },
    examples: [
      ['flowdrop demo', 'three sessions, drops, a report: about two minutes'],
      ['flowdrop demo --rows 5000 --sessions 1', 'the same in some seconds'],
    ],
    load: async () => (await import('./demo.ts')).demo,
  }),
  command({
    name: 'init',
    group: 'setUp',
    summary: 'write a commented job file and a settings file, and try the connection',
    argument: { syntax: '[dir]', text: 'where to (default: ".")' },
    options: {
      name: text('name', 'name of the job (default: nightly-trades)'),
      apiUrl: text('url', 'address of the options data API'),
      apiKeyFile: text('file', 'file that holds the key; it stays where it is'),
      to: text('place', 'where the drops go: a directory or s3://bucket/prefix (default: out/drops)'),
      reportTo: list('address', 'who gets the flow report'),
      symbols: list('symbol', 'watchlist of the report'),
      smtpUrlFile: text('file', 'file that holds the address of the mail server'),
      mailFrom: text('address', 'sender of the reports'),
      ask: flag('ask for what no flag gives, also where stdin is no terminal: one line an answer'),
      yes: flag('ask nothing'),
      force: flag('replace existing files; they are kept as FILE.old'),
      offline: flag('do not try the connection'),
    },
    notes:
      'On a terminal it asks for what no flag gives. The key is asked for, or stays in its file: never an argument.',
    examples: [
      ['flowdrop init', 'asks, and writes into this folder'],
      ['flowdrop init --yes', 'asks nothing'],
      [
        'flowdrop init worker --api-url https://api.example.com --api-key-file ~/.flow-key --to s3://bucket/drops --yes',
        'a folder of its own, drops to S3',
      ],
      ['flowdrop init --report-to desk@example.com --symbols SPY QQQ', 'with a report'],
    ],
    load: async () => (await import('./init/init.ts')).init,
  }),
  command({
    name: 'doctor',
    group: 'setUp',
    summary: 'try everything that runs need: settings, key, clock, store rights, mail, drawing, disk, memory, engine',
    argument: { syntax: '[job]', text: 'a job file, or its name in the jobs folder; without it all of the folder' },
    notes: `It sends one request to each API in test mode, logs in to the mail server without sending, and removes what it writes.
Exit code 0: a run can work; 1: one of the checks failed, and a run would fail too.`,
    examples: [
      ['flowdrop doctor', 'all jobs of the folder'],
      ['flowdrop doctor nightly-trades', 'what one job needs'],
      [`flowdrop --json doctor | jq '.checks[] | select(.status != "ok")'`, 'only what is wrong'],
    ],
    load: async () => (await import('./doctor.ts')).doctor,
  }),
  command({
    name: 'check',
    group: 'setUp',
    summary: 'validate job files (all of the jobs folder when none is named)',
    argument: { syntax: '[job...]', text: 'job files, or their names in the jobs folder' },
    options: { live: flag("also send each job's query to the API in test mode") },
    examples: [
      ['flowdrop check', 'all job files of the folder'],
      ['flowdrop check jobs/nightly-trades.yaml', 'one file, wherever it is'],
      ['flowdrop check --live nightly-trades', "also sends the job's query, in test mode"],
    ],
    load: async () => (await import('./check.ts')).check,
  }),
  command({
    name: 'schema',
    group: 'setUp',
    summary: 'print the JSON Schema of job files',
    examples: [
      ['flowdrop schema > job.schema.json', 'for an editor that checks YAML'],
      ["flowdrop schema | jq '.properties | keys'", 'the top-level keys'],
    ],
    load: async () => (await import('./schema.ts')).schema,
  }),
  command({
    name: 'completion',
    group: 'setUp',
    summary: 'print a script that completes commands, flags and jobs in your shell',
    argument: { syntax: '<shell>', text: 'your shell', choices: ['bash', 'zsh', 'fish'] },
    examples: [
      ['source <(flowdrop completion bash)', 'in ~/.bashrc'],
      ['source <(flowdrop completion zsh)', 'in ~/.zshrc, after compinit'],
      ['flowdrop completion fish | source', 'in ~/.config/fish/config.fish'],
    ],
    load: async () => (await import('./completion/completion.ts')).completion,
  }),
  command({
    name: 'plan',
    group: 'daily',
    summary: 'print what a run would fetch, what it costs and what expires when; changes nothing',
    argument: { syntax: '[job]', text: 'job file, or its name in the jobs folder; without it all of the folder' },
    examples: [
      ['flowdrop plan', 'all jobs of the folder, and their total'],
      ['flowdrop plan nightly-trades', 'one job, date by date'],
      ["flowdrop --json plan nightly-trades | jq '.total.seconds'", 'for a script'],
    ],
    load: async () => (await import('./plan.ts')).plan,
  }),
  command({
    name: 'run',
    group: 'daily',
    summary: 'export every unsealed date inside the lookback, soonest expiry first, then mail the reports',
    argument: JOB,
    options: {
      report: flag('export only', { isNegated: true }),
      newStore: flag('the store was moved, emptied or replaced on purpose: go on with what is at `drop.to` now'),
    },
    examples: [
      ['flowdrop run nightly-trades', 'export what is not sealed, mail the reports'],
      ['flowdrop run jobs/nightly-trades.yaml --no-report', 'export only'],
      ['flowdrop --json run nightly-trades > result.json', 'the result as one document'],
    ],
    hasLog: true,
    load: async () => (await import('./run.ts')).run,
  }),
  command({
    name: 'backfill',
    group: 'daily',
    summary: 'export chosen dates, the unsealed ones by default; sealed ones are left as they are',
    argument: JOB,
    options: {
      from: text('date', 'first date, YYYY-MM-DD; without dates the whole lookback'),
      to: text('date', 'last date, YYYY-MM-DD'),
      missing: flag('only dates that no run has tried and failed', { conflicts: ['failed', 'all'] }),
      failed: flag('only dates whose last try failed, and degraded drops', { conflicts: ['all'] }),
      all: flag('every date; a sealed one is exported again, and restated where it differs'),
      sealDegraded: flag('seal what is staged of dates that have expired, as degraded', {
        conflicts: ['missing', 'failed', 'all', 'dryRun'],
      }),
      dryRun: flag('print what it would take and what would expire before its turn; change nothing'),
    },
    examples: [
      ['flowdrop backfill nightly-trades --dry-run', 'what it would take, and what would be too late'],
      ['flowdrop backfill nightly-trades --from 2026-11-16 --to 2026-11-20', 'these dates, where not sealed'],
      ['flowdrop backfill nightly-trades --failed', 'what failed or is degraded'],
      ['flowdrop backfill nightly-trades --all --from 2026-11-20 --to 2026-11-20', 'again, restated where it differs'],
    ],
    hasLog: true,
    load: async () => (await import('./backfill.ts')).backfill,
  }),
  command({
    name: 'report',
    group: 'daily',
    summary:
      'mail the reports of a sealed date to recipients who have not received them, preview them, or print what was mailed',
    argument: JOB,
    options: {
      date: text('date', 'trading date; default: the newest sealed one, and late ones of the lookback'),
      preview: text('dir', 'write HTML, text, .eml and attachments there; mail nobody'),
      only: text(
        'address',
        'mail, or preview for, only this address, even if it has received the report or is no recipient',
      ),
      show: flag('print the page that was mailed, as it is in the archive; mail nobody', {
        conflicts: ['preview', 'only'],
      }),
      report: text('id', 'with --show: which of the date, as the archive names it'),
      revision: text('number', 'with --show: of which revision; default: the newest'),
    },
    examples: [
      ['flowdrop report nightly-trades', 'to recipients who have not received it'],
      ['flowdrop report nightly-trades --preview preview', 'as files, to nobody'],
      ['flowdrop report nightly-trades --date 2026-11-20 --only me@example.com', 'one date again, to one address'],
    ],
    hasLog: true,
    load: async () => (await import('./report.ts')).report,
  }),
  command({
    name: 'status',
    group: 'daily',
    summary: 'show what is sealed, what is missing and when it expires, running, last and next runs',
    argument: { syntax: '[job]', text: 'job file, or its name in the jobs folder; default: all' },
    options: {
      all: flag('every date; without it those of the last eight weeks, the others in one line'),
      list: flag('a table of all dates in place of the calendar'),
    },
    examples: [
      ['flowdrop status', 'all jobs of the folder'],
      ['flowdrop status nightly-trades', 'one job'],
      ['flowdrop --json status nightly-trades', 'for a script'],
    ],
    load: async () => (await import('./status/status.ts')).status,
  }),
  command({
    name: 'start',
    group: 'daily',
    summary: 'run every scheduled job when it is due, each in a process of its own, until SIGTERM',
    examples: [
      ['flowdrop start', 'the jobs of ./jobs, until SIGTERM'],
      ['flowdrop --jobs /etc/flowdrop/jobs start', 'those of another folder'],
    ],
    load: async () => (await import('./start.ts')).start,
  }),
  command({
    name: 'verify',
    group: 'data',
    summary: 're-hash and re-read sealed drops and compare them with their manifests',
    argument: JOB,
    options: {
      date: text('date', 'only this trading date; default: every sealed one, and the dataset around them'),
      deep: flag('also compare with the source, for dates still inside the lookback'),
    },
    examples: [
      ['flowdrop verify nightly-trades', 'every sealed date'],
      ['flowdrop verify nightly-trades --date 2026-11-20', 'one date'],
      ['flowdrop verify nightly-trades --deep', 'and recounts at the source'],
    ],
    hasLog: true,
    load: async () => (await import('./verify.ts')).verify,
  }),
  command({
    name: 'upgrade',
    group: 'data',
    summary: 'move a store of an earlier version to the present layout',
    argument: { syntax: '[store]', text: 'directory or s3://bucket/prefix' },
    options: { job: text('job', 'the store of this job, with its S3 settings (encryption, storage class)') },
    notes:
      'Objects are copied inside the store, then the old names are removed. Stop the workers first. When it is killed, run it again.',
    examples: [
      ['flowdrop upgrade out/drops', ''],
      ['flowdrop upgrade --job nightly-trades', ''],
    ],
    load: async () => (await import('./upgrade.ts')).upgrade,
  }),
  command({
    name: 'query',
    group: 'data',
    summary: "the API's SQL over all sealed drops of a dataset, without its lookback and limits",
    argument: {
      syntax: '<sql>',
      text: 'one SELECT over RawOptionTrades, RawOptionTradesMaxDateOnlyMV or the dataset by its name; - reads it from stdin',
    },
    options: {
      job: text('job', 'job whose drops are asked; default: the only job of single trades in the jobs folder'),
      fromStore: text('location', 'directory or s3://bucket/prefix instead of a job; needs --dataset'),
      dataset: text('name', 'dataset in that store'),
      format: choice(
        'format',
        ['table', 'json', 'csv', 'arrow', 'parquet'],
        'default: by the name of --out; table on a terminal, else json',
      ),
      out: text('file', 'write the answer there, completely or not at all; never over an existing file'),
      force: flag('let --out replace an existing file'),
      vertical: flag('one line a column instead of a table: for wide rows'),
    },
    examples: [
      [
        'flowdrop query "SELECT symbol, sum(premium) AS p FROM RawOptionTrades GROUP BY symbol ORDER BY p DESC LIMIT 10"',
        '',
      ],
      ['flowdrop query --job nightly-trades --out day.parquet "SELECT * FROM RawOptionTrades"', ''],
      ['flowdrop query --vertical "SELECT * FROM trades WHERE symbol = \'SPX\' LIMIT 2"', 'by the name of the dataset'],
      ['flowdrop query - --format csv < report.sql > report.csv', ''],
      ['flowdrop query --from-store s3://bucket/drops --dataset trades "SELECT count() FROM RawOptionTrades"', ''],
    ],
    load: async () => (await import('./query/query.ts')).query,
  }),
  command({
    name: 'serve',
    group: 'service',
    summary:
      'serve the options data API over files, generated sessions or a ClickHouse server; prints its addresses as one JSON line',
    options: {
      data: each('file', 'trades: .ndjson, .csv (also .gz) or .parquet; repeatable'),
      chain: each('file', 'an option chain: .csv (also .gz) of the exchange, or of our columns; repeatable'),
      dataDir: text('dir', 'folder that keeps what was loaded; default: a temporary one'),
      generate: number('sessions', 'generate this many trading sessions'),
      generateRows: number('rows', 'trades of each generated session'),
      seed: number('number', 'seed of the generator'),
      asOf: text('instant', 'ISO instant at which the clock of the service starts'),
      earliest: text('date', 'first visible date'),
      rowLimit: number('rows', 'most rows of one answer'),
      trialRowLimit: number('rows', 'most rows of one answer to a trialing key'),
      chainLimit: number('contracts', 'most contracts of one option chain'),
      scanLimit: number('rows', 'most rows read for one answer'),
      concurrency: number('queries', 'queries that run at the same time'),
      requestsPerSecond: number('rate', 'requests a second of one key'),
      key: each('key', `accepted key, beginning with cus_ or apikey_; repeatable (default: ${LOCAL_KEY})`),
      keyFile: text('file', 'hashed keys with entitlements, as `flowdrop key` writes them; read again when it changes'),
      secureCookies: flag('session cookies over TLS only, for a service behind a proxy that has it'),
      clickhouseUrl: text(
        'url',
        'a ClickHouse server instead of the embedded engine; FLOWDROP_CLICKHOUSE_URL keeps the password out of sight',
      ),
      order: choice('column', ['time', 'symbol'], 'what the table is sorted by'),
      host: text('address', 'interface to listen on'),
      port: number('port', 'port of the main entry point; 0 picks one'),
      portalPort: number('port', 'port of the separate entry point; 0 picks one'),
    },
    examples: [
      ['flowdrop serve --generate 3', `three generated sessions, key ${LOCAL_KEY}`],
      ['flowdrop serve --data trades.parquet --port 8080', 'trades of a file'],
      ['flowdrop serve --data-dir data --key-file keys.yaml', 'kept data, keys of your own'],
    ],
    load: async () => (await import('./serve.ts')).serve,
  }),
  command({
    name: 'key',
    group: 'service',
    summary: 'make a key for serve; it is shown once, its entry for the key file holds only a hash',
    options: {
      name: text('name', 'whose key it is, for the log', { isRequired: true }),
      entitlement: choice('subscription', ['active', 'trialing', 'none'], 'historical SQL (default: active)'),
      realtime: flag('entitled to the option chain and to market structure'),
      prefix: choice('prefix', ['cus', 'apikey'], 'what the key begins with (default: cus)'),
      file: text('file', 'key file to add the entry to; made when there is none'),
    },
    examples: [
      ['flowdrop key --name desk --file keys.yaml', 'a key for historical SQL'],
      ['flowdrop key --name trial --entitlement trialing', 'its entry is printed'],
    ],
    load: async () => (await import('./key.ts')).key,
  }),
  command({
    name: ENGINE_WORKER_COMMAND,
    summary: 'one engine process of `serve` or `query`; it speaks over an inherited socket',
    load: async () => {
      const { runWorker } = await import('../engine/worker.ts');
      return async () => await runWorker().then(() => undefined);
    },
  }),
  command<readonly string[]>({
    name: 'complete',
    summary: 'what may come next, for the script of `completion`',
    argument: { syntax: '[word...]', text: 'what is typed after `flowdrop`' },
    load: async () => {
      const { complete } = await import('./completion/completion-words.ts');
      return async (cli, call) => await complete(cli, call, { commands: COMMANDS, options: GLOBAL_OPTIONS });
    },
  }),
  command({
    name: 'alert',
    summary: 'alert the operators of a job, without a run',
    argument: JOB,
    options: {
      died: text('text', 'how a run ended without a result'),
      broken: text('message', 'why the job file as it is now is invalid'),
    },
    examples: [
      ['flowdrop alert nightly-trades', 'gaps that are about to expire, expired dates'],
      ["flowdrop alert nightly-trades --died 'killed by OOM'", 'a run that ended without a result'],
    ],
    hasLog: true,
    load: async () => (await import('./alert.ts')).alert,
  }),
];
