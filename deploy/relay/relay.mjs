/**
 * Verifies the signature of flowdrop's events and forwards each once to a scheduler or a chat tool, by the `forward` of a file
 * in this folder. Node 20, no packages: `FLOWDROP_EVENTS_SECRET=... AIRFLOW_URL=... AIRFLOW_TOKEN=... node relay.mjs airflow`
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';

const { FLOWDROP_EVENTS_SECRET: secret, RELAY_PORT: port = '8787' } = process.env;
if (!secret) throw new Error('FLOWDROP_EVENTS_SECRET is not set');
const { forward } = await import(`./${process.argv[2]}.mjs`);
/** Ids of the last forwarded events. */
const seen = new Set();

createServer(async (request, response) => {
  const answer = (status) => response.writeHead(status).end();
  if (!(Number(request.headers['content-length']) < 262_144)) return answer(413);
  try {
    const body = await text(request);
    if (!isFromFlowdrop(request.headers, body)) return answer(401);
    const event = JSON.parse(body);
    if (seen.has(event.id)) return answer(204);
    const forwarded = await forward(event);
    // 409: the scheduler already has this run.
    if (forwarded && !forwarded.ok && forwarded.status !== 409) return answer(502);
    seen.add(event.id);
    if (seen.size > 10_000) seen.delete(seen.values().next().value);
    return answer(204);
  } catch (error) {
    console.error(error);
    return answer(502);
  }
}).listen(Number(port));

function isFromFlowdrop(headers, body) {
  const timestamp = headers['x-flowdrop-timestamp'] ?? '';
  const wanted = Buffer.from(`sha256=${createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')}`);
  const given = Buffer.from(headers['x-flowdrop-signature'] ?? '');
  const isFresh = Math.abs(Date.now() / 1000 - Number(timestamp)) < 300;
  return isFresh && given.length === wanted.length && timingSafeEqual(given, wanted);
}
