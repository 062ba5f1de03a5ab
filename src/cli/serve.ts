/**
 * `flowdrop serve`: the options data service, on the embedded engine, a ClickHouse server or an archive of sealed drops,
 * until SIGTERM; or with `--catalog` the read-only Iceberg catalog of a store instead. This file joins the archive, which
 * knows the drops, with the service, which knows the API; neither knows the other.
 */
import { once } from 'node:events';
import { realpath } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { makeFolder } from '../core/atomic-file.ts';
import type { Openers } from '../openers.ts';
import { createPace, USUAL_RATE } from '../service/access/gate.ts';
import { openKeys } from '../service/access/keys.ts';
import type { Backend, BackendParts } from '../service/backend.ts';
import { SERVICE_DEFAULTS } from '../service/options.ts';
import { startService } from '../service/start-service.ts';
import { LOCAL_KEY } from './commands.ts';
import { assertDirectory, type Call, type Cli, usage, workerCommand } from './context.ts';

type Options = Call<'serve'>['options'];

const HINT = 'See `flowdrop serve --help`.';

/** Scan limit of an archive, whose engine counts no rows of files: more than there are. */
const NO_SCAN_LIMIT = Number.MAX_SAFE_INTEGER;

export async function serve(cli: Cli, { options }: Call<'serve'>) {
  const { openers, terminal, signal, self } = cli;
  const { generate, key = [], clickhouseUrl, cluster, store, dataset, catalog, ...given } = options;
  if (catalog !== undefined) return await serveCatalog(cli, { ...options, catalog });
  if ((store === undefined) !== (dataset === undefined)) throw usage('--store and --dataset go together', HINT);
  if (store !== undefined) await assertDirectory(cli.cwd, store, 'Run the job first, or check the path.');
  const place = store === undefined || dataset === undefined ? undefined : { store, dataset };
  openers.hide(key);
  const { adminUrl, ...server } = openers.readClickhouse(clickhouseUrl);
  const url = place === undefined ? server.url : undefined;
  if (cluster !== undefined && url === undefined) throw usage('--cluster needs --clickhouse-url', HINT);
  const log = await openers.openLog({ isService: true });
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
      command: workerCommand(self),
      openBackend: place && ((parts) => openArchiveBackend(cli, place, concurrency, parts)),
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
 * @param place the store is `s3://...` or a directory, as in a job file
 * @param concurrency queries that run at the same time
 * @throws Fault `DATASET_UNKNOWN`, `ARCHIVE_EMPTY`, `NO_TRADES`, `ARCHIVE_LOCATION_INVALID` (usage), `DROP_DAMAGED`, StoreFault
 */
export async function openArchiveBackend(
  { openers }: { readonly openers: Pick<Openers, 'openStore' | 'readAccess'> },
  { store: to, dataset: name }: { readonly store: string; readonly dataset: string },
  concurrency: number,
  { log, folder: temporary, startEngines, closers }: BackendParts,
): Promise<Backend> {
  const { openArchive } = await import('../archive/archive.ts');
  const { listReadable } = await import('./query/asked-store.ts');
  const store = await openers.openStore(to);
  closers.push(() => store.close());
  await listReadable(store, { to, trades: name, datasets: [] });
  const folder = join(await realpath(temporary), 'archive');
  await makeFolder(folder);
  const readAccess = () => openers.readAccess(to);
  const archive = await openArchive({ store, readAccess, datasets: [], trades: name, types: 'api', folder });
  const dates = await archive.readDates();
  const parser = await startEngines(join(temporary, 'parser'), 1);
  const pool = await startEngines(join(temporary, 'workers'), concurrency);
  const [first, last] = [dates[0], dates.at(-1)];
  log.info({ event: 'archive-opened', store: store.url, dataset: name, dates: dates.length, first, last }, 'opened');
  return {
    pool,
    parser,
    databases: archive.databases,
    // To count them, the manifests of all years would have to be read.
    rows: null,
    lookbackDays: undefined,
    stream: archive.stream,
    snapshots: undefined,
    settings: archive.settings,
  };
}

/** Flags of `serve` that mean something for a catalog. */
const FLAGS: readonly string[] = ['catalog', 'key', 'keyFile', 'host', 'port'] satisfies (keyof Options)[];

/** Beside the service's own ports. */
const DEFAULT_PORT = 8181;

/** @throws Fault `SERVICE_OPTION_INVALID`, `KEY_INVALID` (kind `usage`), `LISTEN_FAILED`, StoreFault */
async function serveCatalog({ openers, terminal, signal }: Cli, options: Options & { readonly catalog: string }) {
  const { catalog, key = [], keyFile, host = SERVICE_DEFAULTS.host, port = DEFAULT_PORT } = options;
  if (Object.keys(options).some((name) => !FLAGS.includes(name))) {
    const hint = 'flowdrop serve --catalog out/drops --port 8181';
    throw usage('--catalog works only with --key, --key-file, --host and --port', hint, 'SERVICE_OPTION_INVALID');
  }
  const { CATALOG_NAMESPACE, startCatalog } = await import('../catalog/read-only-catalog.ts');
  openers.hide(key);
  const log = await openers.openLog({ isService: true });
  const { clock } = openers;
  const hasKeys = key.length > 0 || keyFile !== undefined;
  const keys = hasKeys ? await openKeys({ keys: key, keyFile }, clock, log) : undefined;
  const store = await openers.openStore(catalog);
  try {
    const { url, close } = await startCatalog({
      store,
      address: { host, port },
      identify:
        keys &&
        ((token) => {
          const caller = keys.ring.identify(token);
          // The tables hold historical data, so a key without that subscription opens nothing.
          return caller?.historical === 'none' ? undefined : caller?.name;
        }),
      wrongKeys: createPace(clock, USUAL_RATE),
      clientDefaults: store.url.startsWith('s3://') ? openers.readS3Defaults() : {},
      log,
      clock,
    });
    terminal.out(`${JSON.stringify({ url, store: store.url, namespace: CATALOG_NAMESPACE })}\n`);
    if (!signal.aborted) await once(signal, 'abort');
    await close();
  } finally {
    await keys?.close();
    await store.close();
  }
  return undefined;
}
