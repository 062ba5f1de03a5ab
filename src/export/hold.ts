/**
 * Holds a sealed date whose rows at the source changed in a way that is no news: the same rows become the next revision, as
 * `degraded`. So every reader of the drop knows, operators are alerted, and no mailed number changes. The date is released
 * by the next restatement that is not doubtful.
 */

import { rm } from 'node:fs/promises';
import { hashFile } from '../core/atomic-file.ts';
import type { Manifest } from '../ledger/manifest.ts';
import { publishDrop } from '../ledger/publish.ts';
import type { ExportRun } from '../run/run.ts';
import { draftAgain } from '../seal/mend.ts';
import type { DropChanges } from '../state/date-records.ts';
import { joinReasons } from './bad-rows.ts';
import { sealedCopy } from './draft-file.ts';

interface HoldInput {
  /** Of the file with the new rows, which are not published. */
  readonly path: string;
  readonly doubt: string;
  readonly sealedAtMs: number;
  readonly isAudit: boolean;
}

interface HeldDate {
  readonly manifest: Manifest;
  /** `unchanged`: it is held already. */
  readonly status: 'sealed' | 'sealed-elsewhere' | 'unchanged';
  readonly changes?: DropChanges | null;
  readonly doubt?: string | undefined;
}

const NO_CHANGES = { added: 0, removed: 0, altered: 0, columns_added: [], columns_removed: [] };

/** @returns `undefined` if the sealed revision is not whole: then its rows cannot be sealed again @throws StoreFault */
export async function holdSealed(
  { ledger, signal }: Pick<ExportRun, 'ledger' | 'signal'>,
  sealed: Manifest,
  { path, doubt, sealedAtMs, isAudit }: HoldInput,
): Promise<HeldDate | undefined> {
  if (sealed.held !== undefined) return { manifest: sealed, status: 'unchanged', doubt };
  const [drop, ...beside] = sealed.files;
  const paths = new Map(beside.map(({ filename }) => [filename, `${path}.held.${filename}`]));
  try {
    for (const one of beside) {
      if (!(await ledger.fetchFile(sealed.date, one, paths.get(one.filename) ?? '', signal))) return undefined;
    }
    const pathOf = (name: string | null | undefined) => paths.get(name ?? '');
    if (`sha256:${await hashFile(sealedCopy(path))}` !== drop.hash) return undefined;
    const { manifest, won } = await publishDrop(
      ledger,
      {
        drop: sealedCopy(path),
        summary: pathOf(sealed.summary),
        counts: pathOf(sealed.counts),
        quarantine: pathOf(sealed.quarantine?.filename),
      },
      {
        ...draftAgain(sealed, sealedAtMs),
        condition: 'degraded',
        degraded_reason: joinReasons(sealed.degraded_reason, doubt),
        held: doubt,
        changes: isAudit ? { ...NO_CHANGES, found_by: 'audit' } : NO_CHANGES,
      },
      { supersedes: sealed, signal },
    );
    return {
      manifest,
      status: won ? 'sealed' : 'sealed-elsewhere',
      ...(won ? { changes: manifest.changes ?? null, doubt } : {}),
    };
  } finally {
    for (const path of paths.values()) await rm(path, { force: true });
  }
}
