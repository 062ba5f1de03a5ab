/** `flowdrop serve`: the options data service, on the embedded engine or a ClickHouse server, until SIGTERM. */
import { InvalidArgumentError } from 'commander';
import type { ActionResult, Register } from './command.ts';
import type { CliContext } from './context.ts';
import { workerCommand } from './engine-worker.ts';

/** Key of a service that was given none: it is not secret, the service listens on the loopback by default. */
export const LOCAL_KEY = 'cus_local';

interface ServeOptions {
  readonly data?: readonly string[];
  readonly chain?: readonly string[];
  readonly dataDir?: string;
  readonly generate?: number;
  readonly generateRows?: number;
  readonly seed?: number;
  readonly asOf?: string;
  readonly earliest?: string;
  readonly rowLimit?: number;
  readonly trialRowLimit?: number;
  readonly chainLimit?: number;
  readonly scanLimit?: number;
  readonly concurrency?: number;
  readonly requestsPerSecond?: number;
  readonly key?: readonly string[];
  readonly keyFile?: string;
  readonly secureCookies?: boolean;
  readonly clickhouseUrl?: string;
  readonly order?: 'time' | 'symbol';
  readonly host?: string;
  readonly port?: number;
  readonly portalPort?: number;
}

export const registerServe: Register = (program, context, act) => {
  program
    .command('serve')
    .description(
      'serve the options data API over files, generated sessions or a ClickHouse server; prints its addresses as one JSON line',
    )
    .option('--data <file>', 'trades: .ndjson, .csv (also .gz) or .parquet; repeatable', collect)
    .option(
      '--chain <file>',
      'an option chain: .csv (also .gz) of the exchange, or of our columns; repeatable',
      collect,
    )
    .option('--data-dir <dir>', 'folder that keeps what was loaded; default: a temporary one')
    .option('--generate <sessions>', 'generate this many trading sessions', parseNumber)
    .option('--generate-rows <rows>', 'trades of each generated session', parseNumber)
    .option('--seed <number>', 'seed of the generator', parseNumber)
    .option('--as-of <instant>', 'ISO instant at which the clock of the service starts')
    .option('--earliest <date>', 'first visible date')
    .option('--row-limit <rows>', 'most rows of one answer', parseNumber)
    .option('--trial-row-limit <rows>', 'most rows of one answer to a trialing key', parseNumber)
    .option('--chain-limit <contracts>', 'most contracts of one option chain', parseNumber)
    .option('--scan-limit <rows>', 'most rows read for one answer', parseNumber)
    .option('--concurrency <queries>', 'queries that run at the same time', parseNumber)
    .option('--requests-per-second <rate>', 'requests a second of one key', parseNumber)
    .option('--key <key>', `accepted key, beginning with cus_ or apikey_; repeatable (default: ${LOCAL_KEY})`, collect)
    .option(
      '--key-file <file>',
      'hashed keys with entitlements, as `flowdrop key` writes them; read again when it changes',
    )
    .option('--secure-cookies', 'session cookies over TLS only, for a service behind a proxy that has it')
    .option(
      '--clickhouse-url <url>',
      'a ClickHouse server instead of the embedded engine; FLOWDROP_CLICKHOUSE_URL keeps the password out of sight',
    )
    .option('--order <column>', 'what the table is sorted by: time or symbol')
    .option('--host <address>', 'interface to listen on')
    .option('--port <port>', 'port of the main entry point; 0 picks one', parseNumber)
    .option('--portal-port <port>', 'port of the separate entry point; 0 picks one', parseNumber)
    .action(async (options: ServeOptions) => {
      await act(() => serve(context, options));
    });
};

async function serve(cli: CliContext, options: ServeOptions): ActionResult {
  const { startService } = await import('../service/serve.ts');
  const { SERVICE_DEFAULTS } = await import('../service/options.ts');
  const { compose, terminal, signal, self } = cli;
  const { generate, key = [], clickhouseUrl, ...given } = options;
  const { adminUrl, ...server } = compose.clickhouse;
  const url = clickhouseUrl ?? server.url;
  const password = url !== undefined && URL.canParse(url) ? new URL(url).password : '';
  const log = await compose.openLog({ isService: true, secrets: [...key, password].filter((secret) => secret !== '') });
  const command = workerCommand(self);
  const service = await startService(
    {
      ...SERVICE_DEFAULTS,
      ...given,
      generateSessions: generate ?? SERVICE_DEFAULTS.generateSessions,
      keys: key.length > 0 || given.keyFile !== undefined ? key : [LOCAL_KEY],
    },
    {
      openWorkers: (workers) => compose.openWorkers({ ...workers, command }),
      openServer: compose.openServer,
      openServerPool: compose.openServerPool,
      ...(url === undefined ? {} : { clickhouse: { url, ...(adminUrl === undefined ? {} : { adminUrl }) } }),
      clock: compose.clock,
      log,
      version: compose.version,
    },
  );
  try {
    terminal.out(`${JSON.stringify({ url: service.url, portal_url: service.portalUrl, rows: service.rows })}\n`);
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
  } finally {
    await service.close();
  }
  return undefined;
}

/** No list to begin with: the help would print it as a default. */
function collect(value: string, previous: readonly string[] = []): readonly string[] {
  return [...previous, value];
}

function parseNumber(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) throw new InvalidArgumentError('it must be a number');
  return value;
}
