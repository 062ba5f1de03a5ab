/** How the rows of a revision differ from those of the revision it replaces: part of manifests and run records. */
import { z } from 'zod';

export const changesSchema = z.looseObject({
  added: z.int().nonnegative(),
  removed: z.int().nonnegative(),
  altered: z.int().nonnegative(),
  columns_added: z.array(z.string()),
  columns_removed: z.array(z.string()),
  /** Trades that the source now has under another id; neither added nor removed. Absent if none. */
  rekeyed: z.int().positive().optional(),
  /** `audit`: a run found by itself that the source had changed. Absent for a restatement on request. */
  found_by: z.enum(['audit']).optional(),
  /** A person asked for them with `--accept-change`; `doubt`: why they would have been refused. */
  accepted: z.looseObject({ by: z.string(), doubt: z.string().optional() }).optional(),
});

export type DropChanges = z.infer<typeof changesSchema>;
