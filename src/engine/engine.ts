/**
 * The contract of the embedded SQL engine (`embedded.ts`), as stages, seals and reports use it. Invariant: rows of data
 * enter and leave as bytes, never as one JavaScript object per row; `rows` is for small results.
 */

/** Values that the engine itself binds to `{name:Type}` placeholders. */
export type SqlParams = Readonly<Record<string, string | number | boolean | readonly string[] | readonly number[]>>;

export interface StatementOptions {
  readonly params?: SqlParams | undefined;
  readonly signal?: AbortSignal | undefined;
  /**
   * Run it at the same time as other statements, so that all cores work: many statements use one only. It sees tables, but no
   * temporary ones. Default: after the statements before it.
   */
  readonly beside?: boolean | undefined;
}

export interface Engine {
  /** Folder of its data, whose disk has room for the rows. */
  readonly folder: string;
  /** Runs one statement that returns no rows. @throws EngineFault */
  command(sql: string, options?: StatementOptions): Promise<void>;
  /** Runs one query and returns its rows as objects. Safe 64-bit integers become numbers. @throws EngineFault */
  rows<Row extends object>(sql: string, options?: StatementOptions): Promise<readonly Row[]>;
  /** Runs one query and returns its result encoded in `format` (e.g. `JSONEachRow`, `Parquet`). @throws EngineFault */
  format(sql: string, format: string, options?: StatementOptions): Promise<Uint8Array>;
  /** Releases the data path. Idempotent. */
  close(): Promise<void>;
}
