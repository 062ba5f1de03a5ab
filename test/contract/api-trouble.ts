/**
 * What brings a service of this process into the states that its rarer answers tell of: moved clocks, exceeded rates, an
 * engine that is busy for ever or dies. Nothing in the service knows of it: queries are sent, time is moved, processes
 * are stopped and killed.
 */
import type { ChildProcess } from 'node:child_process';
import { expect, vi } from 'vitest';
import type { Reply, TestService } from '../service/running-service.ts';

const VIEW = 'RawOptionTradesMaxDateOnlyMV';
/** Reads little and takes for ever. */
const ENDLESS = `SELECT count() FROM ${VIEW} AS a, ${VIEW} AS b, ${VIEW} AS c WHERE a.size + b.size + c.size < 0`;
const MINUTE_MS = 60_000;

/** Sets the clock of a service. */
export async function moveTo(service: TestService, instant: string): Promise<void> {
  const { body } = await service.send('/healthz', {});
  service.advance(Date.parse(instant) - Date.parse(body.time));
}

/** Twelve requests at once, after a minute's rest; the answers in the order of their statuses. */
export async function sendBurst(service: TestService, send: () => Promise<Reply>): Promise<readonly Reply[]> {
  service.advance(MINUTE_MS);
  const replies = await Promise.all(Array.from({ length: 12 }, send));
  return replies.sort((a, b) => a.status - b.status);
}

/** The refused one of two requests at once. */
export async function exceedRate(service: TestService): Promise<Reply> {
  service.advance(5_000);
  const replies = await Promise.all([service.ask('SELECT 1'), service.ask('SELECT 1')]);
  const refused = replies.find(({ status }) => status === 429);
  if (!refused) throw new Error('both requests were answered');
  return refused;
}

/** Waits until so many queries run, and so many wait. */
async function until(service: TestService, running: number, waiting = 0): Promise<void> {
  await vi.waitFor(
    async () => {
      const response = await fetch(`${service.url}/metrics`);
      const text = await response.text();
      expect(text).toContain(`flowdrop_service_engine_pool_running ${running}\n`);
      expect(text).toContain(`flowdrop_service_engine_pool_waiting ${waiting}\n`);
    },
    { timeout: 30_000, interval: 20 },
  );
}

/** The answer, when nothing runs any more. */
async function finish(service: TestService, reply: Promise<Reply>): Promise<Reply> {
  const answered = await reply;
  await until(service, 0);
  return answered;
}

/** The answer to an endless query, once the service's clock says that it has taken too long. */
export async function timeOut(service: TestService): Promise<Reply> {
  const reply = service.ask(ENDLESS);
  await until(service, 1);
  service.advance(MINUTE_MS);
  return await finish(service, reply);
}

/** The answer to a request that finds the only engine busy for ever. */
export async function waitInVain(service: TestService, send: () => Promise<Reply>): Promise<Reply> {
  const endless = service.ask(ENDLESS);
  await until(service, 1);
  const reply = send();
  await until(service, 1, 1);
  service.advance(MINUTE_MS);
  expect((await endless).status).toBe(504);
  return await finish(service, reply);
}

/** The answer to a query whose engine process dies. */
export async function failEngine(service: TestService, findEngine: () => ChildProcess): Promise<Reply> {
  const reply = service.ask(ENDLESS);
  await until(service, 1);
  findEngine().kill('SIGKILL');
  return await finish(service, reply);
}

/** The answer to a request whose engine process dies before it has said anything. */
export async function failIdleEngine(
  service: TestService,
  findEngine: () => ChildProcess,
  send: () => Promise<Reply>,
): Promise<Reply> {
  const engine = findEngine();
  engine.kill('SIGSTOP');
  const reply = send();
  await until(service, 1);
  engine.kill('SIGKILL');
  return await finish(service, reply);
}
