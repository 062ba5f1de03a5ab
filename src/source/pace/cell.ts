/**
 * Holds the state of a budget: one cell that all its users change, one after the other. Implementations: a folder for the
 * processes of a machine (`file-cell.ts`), Redis for machines (`redis-cell.ts`).
 */
import type { PaceState } from './reservations.ts';

interface CellChange<Result> {
  readonly state: PaceState;
  readonly result: Result;
}

export interface PaceCell {
  /**
   * Replaces the state by what `change` makes of it; called again when another was faster.
   * @param change its first argument is `undefined` when there is a state that cannot be read, its second the time by the
   *   cell's clock, the same for all who use it, milliseconds
   * @throws Fault when the state cannot be kept
   */
  update<Result>(change: (state: PaceState | undefined, nowMs: number) => CellChange<Result>): Promise<Result>;
  close(): Promise<void>;
}
