/** Artifacts of Maven Central, fetched once for a machine. Needs Java and Maven. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HAS_EXTERNAL, isMissing } from './external.ts';

const TIMEOUT_MS = 300_000;

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
  return { path, isMissing: isMissing(what, HAS_EXTERNAL && !existsSync(path) ? fetch() : undefined) };
}

/** @returns what stood in the way */
export function runMaven(words: readonly string[]): string | undefined {
  const java = spawnSync('java', ['-version'], { encoding: 'utf8' });
  if (java.status !== 0) return 'no Java';
  const made = spawnSync('mvn', ['-q', '-B', ...words], { encoding: 'utf8', timeout: TIMEOUT_MS });
  return made.status === 0 ? undefined : `mvn: ${made.error?.message ?? (made.stdout + made.stderr).slice(-500)}`;
}
