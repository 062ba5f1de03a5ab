/** How the rows of a revision differ from those of the revision it replaces: part of manifests and run records. */
import { z } from 'zod';

export const changesSchema = z.looseObject({
  added: z.int().nonnegative(),
  removed: z.int().nonnegative(),
  altered: z.int().nonnegative(),
  columns_added: z.array(z.string()),
  columns_removed: z.array(z.string()),
  /** `audit`: a run found by itself that the source had changed. Absent for a restatement on request. */
  found_by: z.enum(['audit']).optional(),
});

export type DropChanges = z.infer<typeof changesSchema>;
