/**
 * The engine process: chdb beside the service, so that a statement that does not stop can be ended by killing the process,
 * and several can run at the same time. Invariant: it does not outlive the service; when the channel closes it ends,
 * even in the middle of a statement.
 */
import { on, once } from 'node:events';
import { describeError, type FailureKind, isFault } from '../core/errors.ts';
import { planWorkerMemory, readMemoryBytes } from '../core/machine.ts';
import { openEmbeddedEngine } from './embedded.ts';
import type { Engine } from './engine.ts';
import { CLICKHOUSE_CODES, EngineFault } from './engine-fault.ts';

/** The first message to a new process. */
export interface WorkerStart {
  /** Folder of the engine's data; only this process uses it. */
  readonly path: string;
  /** Maximum size of a result, bytes; a longer one is refused with the code of TOO_MANY_ROWS_OR_BYTES. */
  readonly maxResultBytes: number;
}

/** A statement and the number of its result; or the next piece of a result. */
export type WorkerRequest =
  | { readonly sql: string; readonly format: string; readonly result: number }
  | { readonly result: number };

export interface WorkerPiece {
  readonly piece: Uint8Array;
  /** Bytes of the result after it. */
  readonly left: number;
}

export type WorkerAnswer =
  | WorkerPiece
  | {
      readonly error: string;
      readonly clickhouseCode: number;
      /** Set if the fault is not from a statement: the engine did not open. */
      readonly fault?: { readonly code: string; readonly kind: FailureKind; readonly hint: string | undefined };
    };

/** The other side asks for each piece, so no more is under way however slowly it reads. */
const PIECE_BYTES = 262_144;
const EMPTY = new Uint8Array();

/** Answers one request after another until the channel closes. */
export async function runWorker(): Promise<void> {
  let engine: Engine | undefined;
  let maxResultBytes = 0;
  /** Number of the last result, and its bytes that were not asked for yet. */
  let result = 0;
  let left: Uint8Array = EMPTY;
  let isBusy = true;
  void once(process, 'disconnect').then(() => {
    // Nobody waits for the answer.
    if (isBusy) process.kill(process.pid, 'SIGKILL');
  });
  /** @throws EngineFault; the Fault of an engine that does not open */
  const answer = async (request: WorkerStart | WorkerRequest): Promise<WorkerPiece> => {
    if ('path' in request) {
      const maxMemoryBytes = planWorkerMemory(readMemoryBytes());
      engine = await openEmbeddedEngine({ path: request.path, maxMemoryBytes });
      ({ maxResultBytes } = request);
    } else if ('sql' in request) {
      left = EMPTY;
      ({ result } = request);
      const bytes = (await engine?.format(request.sql, request.format)) ?? EMPTY;
      if (bytes.length > maxResultBytes)
        throw new EngineFault(CLICKHOUSE_CODES.TOO_MANY_ROWS_OR_BYTES, `the result has ${bytes.length} bytes`);
      left = bytes;
    } else if (request.result !== result) {
      throw new EngineFault(0, 'the result was discarded before it was read');
    }
    const piece = left.subarray(0, PIECE_BYTES);
    left = piece.length < left.length ? left.subarray(PIECE_BYTES) : EMPTY;
    return { piece, left: left.length };
  };
  for await (const [request] of on(process, 'message', { close: ['disconnect'] })) {
    isBusy = true;
    if (request === 'close') break;
    process.send?.(await answer(request).catch(describeFailure));
    isBusy = false;
  }
  await engine?.close();
  if (process.connected) process.disconnect();
}

function describeFailure(error: unknown): WorkerAnswer {
  const message = describeError(error);
  if (error instanceof EngineFault) return { clickhouseCode: error.clickhouseCode, error: message };
  if (!isFault(error)) return { clickhouseCode: 0, error: message };
  return { clickhouseCode: 0, error: message, fault: { code: error.code, kind: error.kind, hint: error.hint } };
}
