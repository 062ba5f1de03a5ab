/** Artifacts of Maven Central, fetched once for a machine, by Debian's Java and Maven. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isMissing } from './external.ts';

const TIMEOUT_MS = 300_000;
const INSTALL = fileURLToPath(new URL('install.sh', import.meta.url));

export interface MavenJar {
  readonly path: string;
  readonly isMissing: boolean;
}

/** @param artifact `group:name:version` @throws when `CI` is set and it cannot be had */
export function findJar(what: string, artifact: string): MavenJar {
  const folder = join(tmpdir(), 'flowdrop-test-spark');
  const [, name, version] = artifact.split(':');
  const path = join(folder, `${name}-${version}.jar`);
  const fetch = () => runMaven(['dependency:copy', `-Dartifact=${artifact}`, `-DoutputDirectory=${folder}`]);
  return { path, isMissing: isMissing(what, existsSync(path) ? undefined : fetch()) };
}

/** @returns what stood in the way */
export function runMaven(words: readonly string[]): string | undefined {
  const installed = spawnSync(INSTALL, ['default-jre-headless', 'maven'], { encoding: 'utf8' });
  if (installed.status !== 0) return `no Java or Maven: ${installed.stderr}`;
  const made = spawnSync('mvn', ['-q', '-B', ...words], { encoding: 'utf8', timeout: TIMEOUT_MS });
  return made.status === 0 ? undefined : `mvn: ${made.error?.message ?? (made.stdout + made.stderr).slice(-500)}`;
}
