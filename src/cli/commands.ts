/**
 * The command table: what is typed, and what the help says. The parser, the help, the completion and
 * `docs/commands.md` follow this table: an option is a member of a row, which the command's file reads. Invariant: a command is imported only when it is called, so that `--help` and a
 * key press of the completion load none: `program.ts` does.
 */
import { type CommandRow, type CommandSpec, choice, flag, list, number, text, type ValuesOf } from './command.ts';

/** Default key of a service without keys. It is not secret: the service listens on the loopback by default. */
export const LOCAL_KEY = 'cus_local';

export const ENGINE_WORKER_COMMAND = 'engine-worker';

export const JOBS_FOLDER = 'jobs';

/** What `init` writes job files for, in the order of its question. */
export const JOB_KINDS = ['trades', 'minute-flow', 'chain', 'structure', 'clickhouse', 'sql'] as const;

/** Options of every command. */
export const GLOBAL_OPTIONS = {
  json: flag('print one JSON document on stdout'),
  jobs: text('dir', `folder of the job files (default: ${JOBS_FOLDER})`),
  debug: flag('log more, and print error stacks'),
};

export type GlobalOptions = ValuesOf<typeof GLOBAL_OPTIONS> & { readonly jobs: string };

/** What the commands take that write a log of a job. */
export const JOB = { syntax: '<job>', text: 'job file, or its name in the jobs folder' } as const;

const MAIL_WAIT = 'how long to retry a mail server, e.g. 30s, 10m, 0 (default: 1m on a terminal)';

const OTHER_BACKFILLS = ['missing', 'failed', 'all', 'acceptChange', 'dryRun'];

/** Options of `serve` for data of its own. An archive has its dates, order and files; its engine counts no rows of files. */
const OTHER_DATA = [
  ...['data', 'chain', 'dataDir', 'generate', 'generateRows', 'seed', 'earliest', 'chainLimit', 'scanLimit'],
  ...['order', 'clickhouseUrl', 'cluster'],
];

/** Which drops `query` and `mcp` read, and what answers. */
const STORE_CHOICE = {
  job: text('job', 'job whose store to query; default: the one store of all jobs', ['fromStore', 'dataset']),
  fromStore: text('location', 'directory or s3://bucket/prefix instead of a job'),
  dataset: text('name', "dataset of that store behind the API's tables; default: the only one with single trades"),
  engine: text('url', 'ClickHouse server that answers; default: FLOWDROP_QUERY_ENGINE_URL, or this machine'),
};

/** In the order of the help. */
export const TABLE = {
  demo: {
    group: 'setUp',
    summary: 'run the shipped nightly job against a service with generated sessions, into ./out',
    options: {
      rows: number('rows', 'trades of each session (default: about 100,000)'),
      sessions: number('sessions', 'trading sessions (default: 3)'),
    },
    examples: [
      ['flowdrop demo', 'three sessions, drops, a report: about a minute'],
      ['flowdrop demo --rows 5000 --sessions 1', 'the same in a few seconds'],
    ],
  },
  init: {
    group: 'setUp',
    summary: 'write a commented job file and a settings file, and test the connection',
    argument: { syntax: '[dir]', text: 'folder to write to (default: ".")' },
    options: {
      add: text('name', 'only add a job file', ['name', 'apiUrl', 'apiKeyFile', 'smtpUrlFile', 'mailFrom']),
      kind: choice('kind', JOB_KINDS, 'with --add: what the job reads (default: trades)'),
      name: text('name', 'name of the job (default: nightly-trades)'),
      apiUrl: text('url', 'address of the options data API'),
      apiKeyFile: text('file', 'file with the API key; it is read there, not copied'),
      to: text('place', 'where the drops go: a directory or s3://bucket/prefix (default: out/drops)'),
      reportTo: list('address', 'who gets the flow report'),
      symbols: list('symbol', 'watchlist of the report'),
      smtpUrlFile: text('file', 'file that holds the address of the mail server'),
      mailFrom: text('address', 'sender of the reports'),
      ask: flag('ask for missing values even if stdin is not a terminal; one answer per line'),
      yes: flag('ask nothing'),
      force: flag('replace existing files; the old ones are kept as FILE.old'),
      offline: flag('do not test the connection'),
    },
    notes: `On a terminal it asks for missing values.
It asks for the key or reads it from a file: the key is never an argument.`,
    examples: [
      ['flowdrop init', 'asks questions, writes into this folder'],
      ['flowdrop init --yes --report-to desk@example.com', 'asks nothing; with a report'],
      [
        'flowdrop init worker --api-key-file ~/.flow-key --to s3://bucket/drops --yes',
        'in its own folder, drops to S3',
      ],
      ['flowdrop init --add spx-chain --kind chain --symbols SPX', 'one more job, in this folder'],
    ],
  },
  doctor: {
    group: 'setUp',
    summary: 'test everything a run needs: settings, key, clock, store rights, mail, charts, disk, memory, engine',
    argument: { syntax: '[job]', text: 'job file, or its name in the jobs folder; default: all' },
    notes: `It sends one request to each API in test mode, logs in to the mail server
without sending, and removes what it writes.
Exit code 0: a run can work; 1: a check failed, and a run would fail too.`,
    examples: [
      ['flowdrop doctor', 'all jobs of the folder'],
      ['flowdrop doctor nightly-trades', 'what one job needs'],
      [`flowdrop --json doctor | jq '.checks[] | select(.status != "ok")'`, 'only what is wrong'],
    ],
  },
  check: {
    group: 'setUp',
    summary: 'validate job files (default: all in the jobs folder)',
    argument: { syntax: '[job...]', text: 'job files, or their names in the jobs folder' },
    options: {
      live: flag("also send each job's query to the API: one request over a second without trades"),
    },
    examples: [
      ['flowdrop check', 'all job files of the folder'],
      ['flowdrop check --live nightly-trades', 'also asks the API whether it accepts the query'],
    ],
  },
  schema: {
    group: 'setUp',
    summary: 'print the JSON Schema of job files',
    examples: [
      ['flowdrop schema > job.schema.json', 'for an editor that checks YAML'],
      ["flowdrop schema | jq '.properties | keys'", 'the top-level keys'],
    ],
  },
  completion: {
    group: 'setUp',
    summary: 'print a script that completes commands, flags and jobs in your shell',
    argument: { syntax: '<shell>', text: 'your shell', choices: ['bash', 'zsh', 'fish'] },
    examples: [
      ['source <(flowdrop completion bash)', 'in ~/.bashrc'],
      ['source <(flowdrop completion zsh)', 'in ~/.zshrc, after compinit'],
      ['flowdrop completion fish | source', 'in ~/.config/fish/config.fish'],
    ],
  },
  plan: {
    group: 'daily',
    summary: 'print what a run would fetch, what it costs and what expires when; changes nothing',
    argument: { syntax: '[job]', text: 'job file, or its name in the jobs folder; default: all' },
    examples: [
      ['flowdrop plan', 'all jobs of the folder, and their total'],
      ['flowdrop plan nightly-trades', 'one job, date by date'],
      ["flowdrop --json plan nightly-trades | jq '.total.seconds'", 'for a script'],
    ],
  },
  run: {
    group: 'daily',
    summary: 'export every unsealed date inside the lookback, soonest expiry first, then mail the reports',
    argument: JOB,
    options: {
      noReport: flag('export only'),
      wait: text('duration', MAIL_WAIT),
      stage: flag('only fetch full pages of the running session; seal and mail nothing', ['newStore']),
      newStore: flag('accept the store at `drop.to` after you moved, emptied or replaced it on purpose'),
    },
    examples: [
      ['flowdrop run nightly-trades', 'export what is not sealed, mail the reports'],
      ['flowdrop run nightly-trades --stage', 'fetch what is visible of the running session'],
      ['flowdrop --json run nightly-trades > result.json', 'the result as one document'],
    ],
  },
  backfill: {
    group: 'daily',
    summary: 'export chosen dates; by default only unsealed ones',
    argument: JOB,
    options: {
      from: text('date', 'first date, YYYY-MM-DD; without dates the whole lookback'),
      to: text('date', 'last date, YYYY-MM-DD'),
      missing: flag('only dates that have not failed in an earlier run', ['failed', 'all']),
      failed: flag('only dates whose last try failed, and degraded drops', ['all']),
      all: flag('every date; sealed ones are exported again, and restated if they differ'),
      acceptChange: flag(
        'one date again, with what the source has now, even if rows are gone or loaded twice; the manifest records who',
        ['missing', 'failed'],
      ),
      sealDegraded: flag('seal the staged rows of expired dates, as degraded', OTHER_BACKFILLS),
      dryRun: flag('print the cost, and dates that would expire before they are fetched; change nothing'),
    },
    examples: [
      ['flowdrop backfill nightly-trades --dry-run', 'the cost, and dates that would be too late'],
      ['flowdrop backfill nightly-trades --from 2026-11-16 --to 2026-11-20', 'these dates, if not sealed'],
      ['flowdrop backfill nightly-trades --failed', 'failed and degraded dates'],
      ['flowdrop backfill nightly-trades --all --from 2026-11-20 --to 2026-11-20', 'one date again'],
    ],
  },
  report: {
    group: 'daily',
    summary:
      'mail the reports of a sealed date to recipients who have not received them, preview them, or print what was mailed',
    argument: JOB,
    options: {
      date: text('date', 'trading date; default: the newest sealed one, and late ones inside the lookback'),
      preview: text('dir', 'write HTML, text, .eml and attachments to this folder; send nothing'),
      wait: text('duration', MAIL_WAIT),
      only: text('address', 'only for this address, even if it has received the report or is no recipient'),
      show: flag('print the mailed page from the archive; send nothing', ['preview', 'only']),
      report: text('id', 'with --show: id of the report in the archive'),
      revision: number('number', 'with --show: revision to print; default: the newest'),
    },
    examples: [
      ['flowdrop report nightly-trades', 'to recipients who have not received it'],
      ['flowdrop report nightly-trades --preview preview', 'as files; nothing is sent'],
      ['flowdrop report nightly-trades --date 2026-11-20 --only me@example.com', 'one date again, to one address'],
    ],
  },
  status: {
    group: 'daily',
    summary:
      'show what is sealed, what is missing and when it expires, the current, last and next runs, and who makes the next',
    argument: { syntax: '[job]', text: 'job file, or its name in the jobs folder; default: all' },
    options: {
      all: flag('every date; default: the last eight weeks, older dates in one line'),
      list: flag('a table of all dates instead of the calendar'),
    },
    notes: 'Exit code 3: a date that can still be fetched needs you.',
    examples: [
      ['flowdrop status', 'all jobs of the folder; more than five have one line each'],
      ['flowdrop status nightly-trades', 'one job'],
    ],
  },
  runs: {
    group: 'daily',
    summary:
      'list the runs of this machine, scheduled and manual; or show one: why it failed, what next, its dates, the end of its log',
    argument: { syntax: '[job run...]', text: '`JOB` (default: all), or `JOB RUN`: its id, or `last`' },
    options: {
      limit: number('count', 'how many, newest first; of one run: lines of its log (default: 20)'),
      stages: flag('also list runs that only staged the running session'),
    },
    examples: [
      ['flowdrop runs', 'the last 20 of all jobs'],
      ['flowdrop runs nightly-trades --limit 100', 'more of one job'],
      ['flowdrop runs nightly-trades last', 'why the last one failed, and its log'],
    ],
  },
  alerts: {
    group: 'daily',
    summary: 'list the open alerts: what happened, what to type, since when, and who was notified',
    argument: { syntax: '[job]', text: 'job file, or its name in the jobs folder; default: all' },
    examples: [
      ['flowdrop alerts', 'of all jobs of the folder'],
      ['flowdrop --json alerts nightly-trades', 'of one job, for a script'],
    ],
  },
  start: {
    group: 'daily',
    summary: 'run every scheduled job when it is due, each in its own process, until SIGTERM',
    examples: [
      ['flowdrop start', 'the jobs of ./jobs, until SIGTERM'],
      ['flowdrop --jobs /etc/flowdrop/jobs start', 'the jobs of another folder'],
    ],
  },
  verify: {
    group: 'data',
    summary: 're-hash and re-read sealed drops and compare them with their manifests',
    argument: JOB,
    options: {
      date: text('date', 'only this trading date; default: every sealed one, and the dataset as a whole'),
      deep: flag('also compare with the source, for dates still inside the lookback', ['repair']),
      repair: flag('repair damaged dates while the source still has them; record lost revisions'),
    },
    examples: [
      ['flowdrop verify nightly-trades', 'every sealed date'],
      ['flowdrop verify nightly-trades --deep', 'also compares with the source'],
    ],
  },
  gap: {
    group: 'data',
    summary: 'accept a gap that will not be filled: it stays visible, but raises no alerts; or list the gaps',
    argument: { syntax: '[action...]', text: '`accept JOB DATE` or `list JOB`' },
    options: { reason: text('text', 'why it is accepted'), by: text('name', 'who accepts it; default: the user') },
    examples: [
      ['flowdrop gap list nightly-trades', 'gaps, and who accepted which'],
      ['flowdrop gap accept nightly-trades 2026-11-19 --reason "vendor outage"', 'no more alerts about it'],
    ],
  },
  drop: {
    group: 'data',
    summary: 'show one drop: manifest, revisions and what changed, checks, audit; or write its file to stdout',
    argument: { syntax: '[job date...]', text: '`JOB DATE`' },
    options: { file: flag('check its Parquet file, then write it to stdout') },
    examples: [
      ['flowdrop drop nightly-trades 2026-11-20', 'what its manifest says'],
      ['flowdrop drop nightly-trades 2026-11-20 --file > day.parquet', 'its file, from any store'],
    ],
  },
  iceberg: {
    group: 'data',
    summary: 'rebuild the Iceberg table of a job from the sealed dates',
    argument: { syntax: '[action...]', text: '`rebuild`, then the name of the job or the path of its file' },
    examples: [
      ['flowdrop iceberg rebuild nightly-trades', 'after its metadata was lost, or its directory was moved'],
      ['flowdrop iceberg rebuild nightly-trades --json', 'the result as one JSON document'],
    ],
  },
  query: {
    group: 'data',
    summary: 'run SQL over all sealed drops of a store, without lookback or limits',
    argument: {
      syntax: '<sql>',
      text: 'SHOW TABLES, DESCRIBE and a table, or one SELECT over tables; - reads it from stdin',
    },
    options: {
      ...STORE_CHOICE,
      apiTypes: flag('send dates, times and empty values as text, as the API does, instead of typed values'),
      format: choice(
        'format',
        ['table', 'json', 'csv', 'arrow', 'parquet'],
        'default: by the extension of --out; table on a terminal, else json',
      ),
      out: text('file', 'write the answer to this file, completely or not at all; never overwrites'),
      force: flag('let --out replace an existing file'),
      vertical: flag('one line per column instead of a table: for wide rows', ['format']),
    },
    examples: [
      ['flowdrop query "SELECT symbol, sum(premium) AS p FROM trades GROUP BY symbol ORDER BY p DESC LIMIT 10"', ''],
      ['flowdrop query "SELECT * FROM trades WHERE date >= today() - 7" --out week.parquet', ''],
      ['flowdrop query "SELECT date, symbol, total_premium FROM trades_summary"', 'daily sums'],
      ['flowdrop query - --format csv < report.sql > report.csv', ''],
    ],
  },
  mcp: {
    group: 'data',
    summary: 'let an assistant read drops and mailed reports, by MCP on stdin and stdout',
    options: {
      ...STORE_CHOICE,
      timeout: number('seconds', 'time after which a query is ended (default: 45)'),
    },
    examples: [
      ['flowdrop mcp', 'over the one store of all jobs'],
      ['flowdrop mcp --from-store s3://bucket/drops', 'over a store, without jobs'],
    ],
  },
  serve: {
    group: 'service',
    summary:
      'serve the options data API over files, generated sessions, a ClickHouse server or your sealed drops; prints its addresses as one JSON line',
    options: {
      store: text(
        'location',
        'serve sealed drops instead: s3://BUCKET/PREFIX or a directory; every sealed date, no lookback',
        OTHER_DATA,
      ),
      dataset: text('name', 'dataset in --store'),
      data: list('file', 'trades: .ndjson, .csv (also .gz) or .parquet'),
      chain: list('file', 'option chain: .csv (also .gz) with the columns of the exchange or ours'),
      dataDir: text('dir', 'folder that keeps the loaded data; default: a temporary one'),
      generate: number('sessions', 'generate this many trading sessions'),
      generateRows: number('rows', 'trades of each generated session (default: about 100,000)'),
      seed: number('number', 'seed of the generator'),
      asOf: text('instant', 'start time of the service clock, ISO 8601'),
      earliest: text('date', 'first visible date'),
      rowLimit: number('rows', 'maximum rows per answer'),
      trialRowLimit: number('rows', 'maximum rows per answer to a trialing key'),
      chainLimit: number('contracts', 'maximum contracts per option chain'),
      scanLimit: number('rows', 'maximum rows read for one answer'),
      concurrency: number('queries', 'queries that run at the same time'),
      requestsPerSecond: number('rate', 'requests per second for each key'),
      key: list('key', `accepted key, beginning with cus_ or apikey_ (default: ${LOCAL_KEY})`),
      keyFile: text('file', 'hashed keys with entitlements, as `flowdrop key` writes them; reloaded when it changes'),
      secureCookies: flag('send session cookies over TLS only, for a service behind a TLS proxy'),
      clickhouseUrl: text('url', 'a ClickHouse server as engine; FLOWDROP_CLICKHOUSE_URL instead hides the password'),
      cluster: text('name', 'cluster of that server on which to create the tables, with FLOWDROP_CLICKHOUSE_ADMIN_URL'),
      order: choice('column', ['time', 'symbol'], 'sort column of the table'),
      catalog: text('store', 'serve only the Iceberg tables of this store, as a read-only REST catalog'),
      host: text('address', 'interface to listen on'),
      port: number('port', 'port of the main entry point, or of the catalog; 0 picks one'),
      portalPort: number('port', 'port of the separate entry point; 0 picks one'),
    },
    examples: [
      ['flowdrop serve --generate 3', `three generated sessions, key ${LOCAL_KEY}`],
      ['flowdrop serve --data-dir data --key-file keys.yaml', 'keeps the loaded data; your own keys'],
      ['flowdrop serve --store s3://bucket/drops --dataset trades', 'every sealed date, for any client of the API'],
      ['flowdrop serve --catalog out/drops', 'Spark, PyIceberg and DuckDB attach to http://127.0.0.1:8181'],
    ],
  },
  key: {
    group: 'service',
    summary: 'create a key for serve; it is shown once; the key file stores only its hash',
    options: {
      name: text('name', 'whose key it is, for the log; required'),
      entitlement: choice('subscription', ['active', 'trialing', 'none'], 'historical SQL (default: active)'),
      realtime: flag('allow the option chain and market structure'),
      prefix: choice('prefix', ['cus', 'apikey'], 'what the key begins with (default: cus)'),
      file: text('file', 'key file to add the entry to; created if missing'),
    },
    examples: [
      ['flowdrop key --name desk --file keys.yaml', 'a key for historical SQL'],
      ['flowdrop key --name trial --entitlement trialing', 'its entry is printed'],
    ],
  },
  [ENGINE_WORKER_COMMAND]: {
    summary: 'one engine process of `serve` or `query`, connected by an inherited socket',
  },
  complete: {
    summary: 'possible next words, for the script of `completion`',
    argument: { syntax: '[word...]', text: 'what is typed after `flowdrop`' },
  },
  alert: {
    summary: 'alert the operators of a job, without a run',
    argument: JOB,
    options: {
      died: text('text', 'how a run ended without a result'),
      broken: text('message', 'why the job file is invalid'),
    },
    examples: [["flowdrop alert nightly-trades --died 'killed by OOM'", 'a run that ended without a result']],
  },
} satisfies Readonly<Record<string, CommandRow>>;

export type CommandName = keyof typeof TABLE;

export const COMMANDS: readonly (CommandSpec & { readonly name: CommandName })[] = Object.entries<CommandRow>(
  TABLE,
).map(([name, row]) => ({ name: name as CommandName, options: {}, ...row }));
