/** The SHA-256 of an object of the store, computed by the ClickHouse server that reads it. */
import type { Engine, StatementOptions } from './engine.ts';
import { CLICKHOUSE_CODES, EngineFault } from './engine-fault.ts';
import { namedS3 } from './named-s3.ts';

/** The server cannot hash at all, or not so large an object. */
const NO_HASH_CODES: readonly number[] = [CLICKHOUSE_CODES.UNKNOWN_FUNCTION, CLICKHOUSE_CODES.MEMORY_LIMIT_EXCEEDED];

/**
 * @param key relative to the address of the collection
 * @returns lower-case hexadecimal; `undefined` if the server cannot hash it, or reads another number of bytes
 * @throws EngineFault
 */
export async function hashObject(
  engine: Pick<Engine, 'rows'>,
  { key, collection, sizeBytes }: { readonly key: string; readonly collection: string; readonly sizeBytes: number },
  options?: StatementOptions,
): Promise<string | undefined> {
  const blob = namedS3([key], { collection, format: 'RawBLOB', structure: 'raw String' });
  const hashed = engine.rows<{ hash: string; n: number }>(
    `SELECT lower(hex(SHA256(raw))) AS hash, length(raw) AS n FROM ${blob}`,
    options,
  );
  const [found] = await hashed.catch((error: unknown) => {
    if (error instanceof EngineFault && NO_HASH_CODES.includes(error.clickhouseCode)) return [];
    throw error;
  });
  return found !== undefined && Number(found.n) === sizeBytes ? found.hash : undefined;
}
