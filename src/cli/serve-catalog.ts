/** `flowdrop serve --catalog STORE`: the read-only Iceberg catalog of a store, until SIGTERM. */
import { once } from 'node:events';
import { CATALOG_NAMESPACE, startCatalog } from '../catalog/read-only-catalog.ts';
import { USUAL_PACE } from '../service/access/gate.ts';
import { openKeys } from '../service/access/key-source.ts';
import type { Caller } from '../service/access/keys.ts';
import { KeyPace } from '../service/access/pace.ts';
import { SERVICE_DEFAULTS } from '../service/options.ts';
import { usage } from './arguments.ts';
import type { Call } from './commands.ts';
import type { Cli } from './context.ts';

type Flags = Call<'serve'>['options'];

/** Flags of `serve` that mean something for a catalog. */
const FLAGS: readonly string[] = ['catalog', 'key', 'keyFile', 'host', 'port'] satisfies (keyof Flags)[];

/** Beside the service's own ports. */
const DEFAULT_PORT = 8181;

/** @throws Fault `SERVICE_OPTION_INVALID`, `KEY_INVALID` (kind `usage`), `LISTEN_FAILED`, StoreFault */
export async function serveCatalog(
  { openers, terminal, signal }: Cli,
  options: Flags & { readonly catalog: string },
): Promise<void> {
  const { catalog, key = [], keyFile, host = SERVICE_DEFAULTS.host, port = DEFAULT_PORT } = options;
  if (Object.keys(options).some((name) => !FLAGS.includes(name))) {
    const hint = 'flowdrop serve --catalog out/drops --port 8181';
    throw usage('--catalog works only with --key, --key-file, --host and --port', hint, 'SERVICE_OPTION_INVALID');
  }
  const log = await openers.openLog({ isService: true, secrets: key });
  const { clock } = openers;
  const hasKeys = key.length > 0 || keyFile !== undefined;
  const keys = hasKeys ? await openKeys({ keys: key, keyFile }, clock, log) : undefined;
  const store = await openers.openStore(catalog);
  try {
    const { url, close } = await startCatalog({
      store,
      address: { host, port },
      identify: keys && ((token) => nameReader(keys.ring.identify(token))),
      wrongKeys: new KeyPace(clock, USUAL_PACE),
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
}

/** The tables hold historical data, so a key without that subscription opens nothing. */
function nameReader(caller: Caller | undefined): string | undefined {
  return caller === undefined || caller.historical === 'none' ? undefined : caller.name;
}
