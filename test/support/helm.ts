/** Helm: the one on the PATH, else built once for a machine from its Go module. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const HELM = 'helm.sh/helm/v3/cmd/helm@v3.22.0';
/** For three minutes of two cores' work, where others work too. */
export const BUILD_MS = 900_000;

export type FoundHelm =
  | { readonly helm: string; readonly reason: undefined }
  | { readonly helm: undefined; readonly reason: string };

/** What cannot be had is a reason to skip, in CI too: a machine without Go has no other way to Helm. */
export async function findHelm(): Promise<FoundHelm> {
  const found = await tryHelm();
  if (found.reason !== undefined) console.warn(`\n*** TESTS WITH HELM ARE SKIPPED: ${found.reason}\n`);
  return found;
}

async function tryHelm(): Promise<FoundHelm> {
  if (await isHelm('helm')) return { helm: 'helm', reason: undefined };
  const folder = join(tmpdir(), 'flowdrop-test-helm');
  const helm = join(folder, 'helm');
  if (!existsSync(helm)) {
    try {
      // Two at once do the work twice, and each moves a whole file into its place.
      await run('go', ['install', HELM], { env: { ...process.env, GOBIN: folder }, timeout: BUILD_MS });
    } catch (error) {
      return { helm: undefined, reason: `no helm, and go install: ${String(error).slice(0, 500)}` };
    }
  }
  return (await isHelm(helm)) ? { helm, reason: undefined } : { helm: undefined, reason: `${helm} does not run` };
}

async function isHelm(command: string): Promise<boolean> {
  try {
    return (await run(command, ['version', '--short'])).stdout.startsWith('v3.');
  } catch {
    return false;
  }
}
