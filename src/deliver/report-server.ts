/**
 * Reports that a ClickHouse server computes: it reads drops, summaries and chains in the store, so no row comes to this
 * machine. Invariant: a report is made only of files that had the size and the hash of their manifests, as the server reads
 * them, before its first query and after its last: a drop may be replaced in between.
 */
import { type ArchiveServerOptions, openArchiveServer } from '../archive/archive-server.ts';
import { Fault } from '../core/errors.ts';
import type { Engine } from '../engine/engine.ts';
import { namedS3 } from '../engine/named-s3.ts';
import { fileKey } from '../ledger/layout.ts';
import type { Manifest, ManifestFile } from '../ledger/manifest.ts';
import type { ReportFiles } from '../report/drop-source.ts';
import type { StoreAccess } from '../store/access.ts';

export interface ReportServer {
  readonly engine: Pick<Engine, 'rows'>;
  /** The files of sealed dates by their keys. */
  readonly files: ReportFiles;
  /**
   * The path by which the server reads this file of a date; `undefined` if its bytes are not those of the manifest. A server
   * that cannot hash the file compares its size only.
   * @throws Fault `ENGINE_COLLECTION`; EngineFault
   */
  find(of: Pick<Manifest, 'dataset' | 'date'>, file: ManifestFile): Promise<string | undefined>;
  /** @throws Fault `DROP_RESTATING` if a file that was found has other bytes by now; EngineFault */
  assertUnchanged(): Promise<void>;
}

/** @throws Fault `ENGINE_NEEDS_S3`, `ARCHIVE_LOCATION_INVALID` (usage), `SERVER_TOO_OLD`, `ENGINE_UNREACHABLE` */
export async function openReportServer(
  access: StoreAccess,
  options: ArchiveServerOptions,
  signal: AbortSignal,
): Promise<ReportServer> {
  // A report reads few files, which nodes of a cluster do not share.
  const server = await openArchiveServer(access, { ...options, cluster: undefined });
  const { collection } = options;
  const found = new Map<string, () => Promise<boolean>>();
  return {
    engine: {
      rows: async (sql, { params, signal: own = signal } = {}) => await server.ask(sql, { params, signal: own }),
    },
    files: {
      table: (key, structure) => namedS3([key], { collection, format: 'Parquet', structure }),
      settings: server.settings,
    },
    async find({ dataset, date }, file) {
      const key = fileKey(dataset, date, file.filename);
      const isSealed = () => server.holds(dataset, { date, filename: file.filename }, file, signal);
      if (!(await isSealed())) return undefined;
      found.set(key, isSealed);
      return key;
    },
    async assertUnchanged() {
      for (const [key, isSealed] of found) {
        if (await isSealed()) continue;
        throw new Fault('DROP_RESTATING', `${key} was replaced while the server read it`, {
          hint: 'Try again in a minute.',
        });
      }
    },
  };
}
