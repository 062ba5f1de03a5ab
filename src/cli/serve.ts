/**
 * `flowdrop serve`: the options data service, on the embedded engine or a ClickHouse server, until SIGTERM; or with
 * `--catalog` the catalog of a store instead.
 */
import { SERVICE_DEFAULTS, type ServiceOptions } from '../service/options.ts';
import { startService } from '../service/start-service.ts';
import type { ActionResult, CommandCall } from './command.ts';
import type { CliContext } from './context.ts';
import { workerCommand } from './engine-worker.ts';
import { LOCAL_KEY } from './local-key.ts';

/** The service's options, some under other names on the command line. */
interface ServeFlags extends Partial<Omit<ServiceOptions, 'generateSessions' | 'keys'>> {
  readonly generate?: number;
  readonly key?: readonly string[];
  readonly clickhouseUrl?: string;
  readonly catalog?: string;
}

type ServeCli = Pick<CliContext, 'openers' | 'self' | 'service' | 'signal' | 'terminal'>;

export async function serve(cli: ServeCli, { options }: CommandCall<undefined, ServeFlags>): ActionResult {
  const { openers, service: engines, terminal, signal, self } = cli;
  const { generate, key = [], clickhouseUrl, catalog, ...given } = options;
  if (catalog !== undefined) {
    await (await import('./serve-catalog.ts')).serveCatalog(cli, { ...options, catalog });
    return undefined;
  }
  const { adminUrl, ...server } = engines.readClickhouse();
  const url = clickhouseUrl ?? server.url;
  const password = url !== undefined && URL.canParse(url) ? new URL(url).password : '';
  const log = await openers.openLog({ isService: true, secrets: [...key, password].filter((secret) => secret !== '') });
  const command = workerCommand(self);
  const service = await startService(
    {
      ...SERVICE_DEFAULTS,
      ...given,
      generateSessions: generate ?? SERVICE_DEFAULTS.generateSessions,
      keys: key.length > 0 || given.keyFile !== undefined ? key : [LOCAL_KEY],
    },
    {
      openWorkers: (workers) => engines.openWorkers({ ...workers, command }),
      openServer: engines.openServer,
      openServerPool: engines.openServerPool,
      clickhouse: url === undefined ? undefined : { url, adminUrl },
      clock: openers.clock,
      log,
      version: openers.version,
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
