/**
 * The container's health check: asks the daemon on this machine whether it is alive, or the address given as an argument.
 * Exit code 0: it answers, or its status page is off. It loads no package, because it runs often.
 */
import { loadEnvFile } from 'node:process';

/** Shorter than the timeout of the container's check, so that the reason is printed. */
const PATIENCE_MS = 8_000;

/** @param {string} address host:port that the daemon listens on */
function urlOf(address) {
  const [, host = '', port = ''] = /^(.*):(\d+)$/.exec(address) ?? [];
  // If the daemon listens on all addresses, use the loopback.
  const reached = { '': '127.0.0.1', '0.0.0.0': '127.0.0.1', '[::]': '[::1]' }[host] ?? host;
  return `http://${reached}:${port}/healthz/live`;
}

try {
  loadEnvFile('.env');
} catch {
  // The file is optional, as for the daemon.
}
const address = process.env.FLOWDROP_STATUS_ADDRESS || '127.0.0.1:8686';
const url = process.argv[2] ?? urlOf(address);
if (process.argv[2] === undefined && address === 'off') process.exit(0);
try {
  const response = await fetch(url, { signal: AbortSignal.timeout(PATIENCE_MS) });
  const text = (await response.text()).trim().slice(0, 500);
  console.log(`${url}: ${response.status} ${text}`);
  process.exitCode = response.ok ? 0 : 1;
} catch (error) {
  console.log(`${url}: ${error.cause?.code ?? error.message}`);
  process.exitCode = 1;
}
