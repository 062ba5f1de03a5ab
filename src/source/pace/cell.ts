/**
 * Holds the state of a budget: one cell that all its users change, one after the other. Implementations: a folder for
 * the processes of one machine (`file-cell.ts`), Redis for several machines (`redis-cell.ts`).
 */
import type { PaceState } from './reservations.ts';

interface CellChange<Result> {
  readonly state: PaceState;
  readonly result: Result;
}

export interface PaceCell {
  /**
   * Replaces the state with the result of `change`; calls it again if another user was faster.
   * @param change its first argument is the state, `undefined` if it is unreadable; its second is the time in
   * milliseconds by the cell's clock, which all users share
   * @throws Fault if the state cannot be stored
   */
  update<Result>(change: (state: PaceState | undefined, nowMs: number) => CellChange<Result>): Promise<Result>;
  close(): Promise<void>;
}
