/**
 * The statements of one task on an engine process. Invariant: statements run one after another, even if the task does
 * not await them, and no part of a result is left for the next one; when `end` resolves, the process is idle. The
 * reader of a truncated result gets an error.
 */
import { EngineFault } from './engine-fault.ts';
import type { PooledEngine } from './pool.ts';
import type { WorkerProcess } from './worker-process.ts';

/** A result that may still be read. */
interface OpenResult {
  readonly pieces: AsyncGenerator<Uint8Array>;
  isCutOff: boolean;
}

export class WorkerTask implements PooledEngine {
  readonly state: object;
  readonly #worker: WorkerProcess;
  /** Resolves when all statements so far have ended. */
  #last: Promise<unknown> = Promise.resolve();
  #result: OpenResult | undefined;
  #isOver = false;

  constructor(worker: WorkerProcess) {
    this.state = worker;
    this.#worker = worker;
  }

  async rows<Row extends object>(sql: string): Promise<readonly Row[]> {
    return await this.#inTurn(async () => {
      const bytes = await readAll(await this.#worker.run({ sql, format: 'JSON' }));
      return (JSON.parse(bytes.toString('utf8')) as { data: Row[] }).data; // Shape of the format; Row is the caller's.
    });
  }

  async command(sql: string): Promise<void> {
    await this.#inTurn(async () => await readAll(await this.#worker.run({ sql, format: 'Null' })));
  }

  async stream(sql: string, format: string): Promise<AsyncIterable<Uint8Array>> {
    return await this.#inTurn(async () => {
      const result = { pieces: await this.#worker.run({ sql, format }), isCutOff: false };
      this.#result = result;
      return readResult(result);
    });
  }

  /** Waits for the running statement and the rest of its result. No statement begins afterwards. */
  async end(): Promise<void> {
    this.#isOver = true;
    await this.#last.catch(ignore);
    await this.#cutOff();
  }

  async #inTurn<T>(act: () => Promise<T>): Promise<T> {
    const turn = this.#last.catch(ignore).then(async () => {
      if (this.#isOver) throw new EngineFault(0, 'the task of this engine is over');
      await this.#cutOff();
      return await act();
    });
    this.#last = turn;
    return await turn;
  }

  /** Discards the rest of the last result. */
  async #cutOff(): Promise<void> {
    const result = this.#result;
    if (!result) return;
    this.#result = undefined;
    for (let next = await result.pieces.next(); !next.done; next = await result.pieces.next()) result.isCutOff = true;
  }
}

/** If the reader leaves the iteration, the next statement or the end of the task discards the rest. */
async function* readResult(result: OpenResult): AsyncGenerator<Uint8Array> {
  for (let next = await result.pieces.next(); !next.done; next = await result.pieces.next()) yield next.value;
  if (result.isCutOff) throw new EngineFault(0, 'the result was discarded before it was read');
}

async function readAll(pieces: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const read: Uint8Array[] = [];
  for await (const piece of pieces) read.push(piece);
  return Buffer.concat(read);
}

function ignore(): void {}
