/**
 * The engine process: chdb behind a socket, so that a statement which does not stop can be ended by ending the process,
 * and several run at the same time. Invariant: it lives no longer than the service; when the socket closes it ends,
 * whatever it is computing.
 */
import { Socket } from 'node:net';
import { kill, pid } from 'node:process';
import { describeError, isFault } from '../core/errors.ts';
import { planWorkerMemory, readMemoryBytes } from '../core/machine.ts';
import { openEmbeddedEngine } from './embedded.ts';
import type { Engine } from './engine.ts';
import { CLICKHOUSE_CODES, EngineFault } from './engine-fault.ts';
import {
  type WorkerFailure,
  type WorkerOptions,
  type WorkerResult,
  WorkerSocket,
  type WorkerStatement,
} from './worker-socket.ts';

/** The file descriptor of the socket: after stdin, stdout and stderr. */
const WORKER_FD = 3;

/** Answers statements until the socket closes. */
export async function runWorker(): Promise<void> {
  const socket = new WorkerSocket(new Socket({ fd: WORKER_FD }));
  const options = await socket.readMessage<WorkerOptions>();
  if (!options) return;
  let engine: Engine;
  try {
    engine = await openEmbeddedEngine({ path: options.path, maxMemoryBytes: planWorkerMemory(readMemoryBytes()) });
  } catch (error) {
    socket.writeMessage(describeFailure(error));
    socket.end();
    return;
  }
  socket.writeMessage({ bytes: 0 } satisfies WorkerResult);
  let next = socket.readMessage<WorkerStatement>();
  for (let statement = await next; statement !== undefined; statement = await next) {
    next = socket.readMessage<WorkerStatement>();
    // Nothing but the end of the socket comes before the answer: nobody waits for it then.
    let isAnswering = true;
    void next.then((message) => {
      if (message === undefined && isAnswering) kill(pid, 'SIGKILL');
    });
    await answer(socket, engine, statement, options);
    isAnswering = false;
  }
  await engine.close();
}

async function answer(
  socket: WorkerSocket,
  engine: Engine,
  { sql, format }: WorkerStatement,
  { maxResultBytes }: WorkerOptions,
): Promise<void> {
  try {
    const { bytes } = await engine.format(sql, format);
    if (bytes.length > maxResultBytes) {
      throw new EngineFault(CLICKHOUSE_CODES.TOO_MANY_ROWS_OR_BYTES, `the result has ${bytes.length} bytes`);
    }
    socket.writeMessage({ bytes: bytes.length } satisfies WorkerResult);
    await socket.writeBytes(bytes);
  } catch (error) {
    socket.writeMessage(describeFailure(error));
  }
}

function describeFailure(error: unknown): WorkerFailure {
  const message = describeError(error);
  if (error instanceof EngineFault) return { code: error.clickhouseCode, error: message };
  if (!isFault(error)) return { code: 0, error: message };
  return { code: 0, error: message, fault: { code: error.code, kind: error.kind, hint: error.hint } };
}
