/** What a machine asks the others for before it starts a request. The implementation is `redis.ts`. */
export interface Permit {
  /**
   * Takes the next start of all machines, if it is free now. Not idempotent.
   * @returns 0 when it was taken, else the milliseconds after which it is worth asking again
   * @throws Fault when nobody can be asked
   */
  ask(): Promise<number>;
  /**
   * A 429 for all machines.
   * @param startedAgoMs how long ago the refused request started, if that is known
   */
  slowDown(pauseMs: number, startedAgoMs: number | undefined): Promise<void>;
  close(): Promise<void>;
}
