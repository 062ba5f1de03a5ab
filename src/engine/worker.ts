/**
 * The engine process: chdb behind a socket, so that a statement that does not stop can be ended by killing the process,
 * and several can run at the same time. Invariant: it does not outlive the service; when the socket closes it ends,
 * even in the middle of a statement.
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
    // Until the answer is sent, only the end of the socket can arrive: then nobody waits for the answer.
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
