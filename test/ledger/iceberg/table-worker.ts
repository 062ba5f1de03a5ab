/**
 * A worker for `killed-commits.slow.test.ts`: seals a day or its next revision, records it and commits the table, until it
 * is killed. It prints `commit` before each commit and `done` after it. Arguments: the store, its own scratch file, a seed.
 */
import { isFault } from '../../../src/core/errors.ts';
import { commitTable } from '../../../src/ledger/iceberg/commit-table.ts';
import { openDirectoryStore } from '../../../src/store/directory.ts';
import { createRandom } from '../../support/random.ts';
import { DATASET, recordDays, sealDay } from '../../support/table-days.ts';

const [root = '', scratch = '', seed = '1'] = process.argv.slice(2);
const store = await openDirectoryStore(root);
const random = createRandom(Number(seed));
/** Three months of days, so that several manifests are at work. */
const DAYS = Array.from({ length: 60 }, (_, day) =>
  new Date(Date.parse('2026-08-10T00:00:00Z') + day * 86_400_000).toISOString().slice(0, 10),
);

for (;;) {
  const date = DAYS[Math.floor(random() * DAYS.length)] ?? '';
  try {
    await sealDay(store, { date, rows: 1 + Math.floor(random() * 50), hasVenue: random() < 0.3 }, scratch);
    await recordDays(store);
    process.stdout.write('commit\n');
    await commitTable(store, DATASET, Date.now());
    process.stdout.write('done\n');
  } catch (error) {
    // The other worker was just at the same date, or wrote the conditions at the same moment.
    const isOther = isFault(error) && ['SEALING_BROKEN', 'MANIFEST_INVALID', 'TABLE_BUSY'].includes(error.code);
    if (!isOther && !String(error).includes('condition.json failed: the file has different bytes')) throw error;
  }
}
