/** A really started service over an archive, in this process: the composition of `serve --store`, free ports, engines. */
import { openArchiveBackend } from '../../src/cli/serve.ts';
import type { ServiceOptions } from '../../src/service/options.ts';
import type { Store, StoreAccess } from '../../src/store/store.ts';
import { startTestService, type TestService } from '../service/running-service.ts';

export interface ArchiveStore {
  /** Opens it once more: the service closes what it was given. */
  open(): Promise<Store>;
  readonly access: StoreAccess;
}

/** As `serve --store` without `--scan-limit`. */
const NO_SCAN_LIMIT = Number.MAX_SAFE_INTEGER;

export async function startArchiveService(
  { open, access }: ArchiveStore,
  dataset: string,
  overrides: Partial<ServiceOptions> = {},
): Promise<TestService> {
  const concurrency = overrides.concurrency ?? 2;
  const cli = {
    openers: { openStore: open, readAccess: async () => access },
  };
  return await startTestService(
    { scanLimit: NO_SCAN_LIMIT, concurrency, ...overrides },
    { openBackend: (parts) => openArchiveBackend(cli, { store: 'unused', dataset }, concurrency, parts) },
  );
}
