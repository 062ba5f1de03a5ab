/** Liveness of the daemon's server while others hold all the connections it has. What it answers: `site.test.ts`. */
import { afterEach, expect, it } from 'vitest';
import { askAnew, type Crowd, gatherCrowd } from '../../support/crowd.ts';
import { usePage } from './views.ts';

/** Sooner than a slow connection is closed for being slow. */
const PROBE_MS = 5_000;

const page = usePage();
let crowd: Crowd;
afterEach(() => crowd.close());

it.each([
  ['64 connections that send half a head', 64, 'GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: '],
  ['300 connections that send nothing', 300, ''],
  ['300 connections that never send their body', 300, 'GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n'],
  ['150 connections that do not read their pages', 150, 'GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'.repeat(20)],
])('liveness of the daemon is told past %s', async (_title, count, text) => {
  await page.start();
  crowd = await gatherCrowd(page.url(), count, text);
  expect(await askAnew(`${page.url()}/healthz/live`, PROBE_MS)).toBe(200);
});
