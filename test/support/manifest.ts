/** Drafts of manifests, for tests of what happens to them. */
import { MANIFEST_VERSION, type Manifest, type ManifestDraft, manifestSchema } from '../../src/ledger/manifest.ts';
import { DATE } from './trades.ts';

export function createDraft(changes: Partial<ManifestDraft> = {}): ManifestDraft {
  return {
    manifest_version: MANIFEST_VERSION,
    job_id: 'trades',
    dataset: 'trades',
    date: DATE,
    condition: 'available',
    rows: 1,
    source_rows: 1,
    duplicates: 0,
    min_time: null,
    max_time: null,
    schema: [],
    schema_hash: 'sha256:0',
    extra_columns: [],
    sort: [],
    compression: 'zstd',
    row_groups: 1,
    statistics: [],
    checks: [],
    summary: null,
    query: { sql: 'SELECT 1', entry_point: 'historical', url: 'http://localhost' },
    windows: [],
    requests: 1,
    started_at: '2026-11-20T00:00:00Z',
    sealed_at: '2026-11-20T00:00:00Z',
    lookback_edge: '2026-11-05 00:00:00',
    row_limit: 1,
    flowdrop_version: '0.0.0',
    ...changes,
  };
}

export function parseManifest(bytes: Uint8Array): Manifest {
  return manifestSchema.parse(JSON.parse(Buffer.from(bytes).toString('utf8')));
}
