/**
 * `flowdrop serve`: the options data service, on the embedded engine, a ClickHouse server or an archive of sealed drops,
 * until SIGTERM; or with `--catalog` the catalog of a store instead.
 */
import { once } from 'node:events';
import { resolve } from 'node:path';
import { SERVICE_DEFAULTS } from '../service/options.ts';
import { startService } from '../service/start-service.ts';
import { assertDirectory, usage } from './arguments.ts';
import { workerCommand } from './child.ts';
import type { ActionResult } from './command.ts';
import { type Call, LOCAL_KEY } from './commands.ts';
import type { Cli } from './context.ts';
import type { ArchivePlace } from './serve-archive.ts';

const HINT = 'See `flowdrop serve --help`.';

/** Scan limit of an archive, whose engine counts no rows of files: more than there are. */
const NO_SCAN_LIMIT = Number.MAX_SAFE_INTEGER;

export async function serve(cli: Cli, { options }: Call<'serve'>): ActionResult {
  const { openers, terminal, signal, self } = cli;
  const { generate, key = [], clickhouseUrl, cluster, store, dataset, catalog, ...given } = options;
  if (catalog !== undefined) {
    await (await import('./serve-catalog.ts')).serveCatalog(cli, { ...options, catalog });
    return undefined;
  }
  const place = await readPlace(cli.cwd, options);
  const { adminUrl, ...server } = openers.readClickhouse();
  const url = place === undefined ? (clickhouseUrl ?? server.url) : undefined;
  if (cluster !== undefined && url === undefined) throw usage('--cluster needs --clickhouse-url', HINT);
  const password = url !== undefined && URL.canParse(url) ? new URL(url).password : '';
  const secrets = [...key, password].filter((secret) => secret !== '');
  const log = await openers.openLog({ isService: true, secrets });
  const command = workerCommand(self);
  const concurrency = given.concurrency ?? SERVICE_DEFAULTS.concurrency;
  const service = await startService(
    {
      ...SERVICE_DEFAULTS,
      ...(place === undefined ? {} : { scanLimit: NO_SCAN_LIMIT }),
      // Whoever lets the system pick one address wants no fixed one beside it.
      ...(given.port === 0 ? { portalPort: 0 } : {}),
      ...given,
      ...(given.dataDir === undefined ? {} : { dataDir: resolve(cli.cwd, given.dataDir) }),
      generateSessions: generate ?? SERVICE_DEFAULTS.generateSessions,
      keys: key.length > 0 || given.keyFile !== undefined ? key : [LOCAL_KEY],
    },
    {
      openWorkers: (workers) => openers.openWorkers({ ...workers, command }),
      openServer: openers.openServer,
      openServerPool: openers.openServerPool,
      openBackend:
        place &&
        (async (parts) => (await import('./serve-archive.ts')).openArchiveBackend(cli, place, concurrency, parts)),
      clickhouse: url === undefined ? undefined : { url, adminUrl, cluster },
      redisUrl: openers.readRedisUrl(),
      clock: openers.clock,
      log,
      version: openers.version,
    },
  );
  try {
    terminal.out(`${JSON.stringify({ url: service.url, portal_url: service.portalUrl, rows: service.rows })}\n`);
    if (!signal.aborted) await once(signal, 'abort');
  } finally {
    await service.close();
  }
  return undefined;
}

/**
 * The archive to serve; `undefined` without `--store`.
 * @throws Fault `USAGE`, `STORE_MISSING`, `LOCATION_INVALID` (usage)
 */
async function readPlace(cwd: string, flags: Call<'serve'>['options']): Promise<ArchivePlace | undefined> {
  const { store, dataset } = flags;
  if (store === undefined && dataset === undefined) return undefined;
  if (store === undefined || dataset === undefined) throw usage('--store and --dataset go together', HINT);
  await assertDirectory(cwd, store, 'Run the job first, or check the path.');
  return { store, dataset };
}
