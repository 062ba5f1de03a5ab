/**
 * Spark with Iceberg: `pyspark` is one of the Python readers, and its Iceberg runtime comes from Maven Central, once for a
 * machine. Needs Java and Maven.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HAS_EXTERNAL, isMissing } from './external.ts';

const ARTIFACT = 'org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.0';

/** @throws when `CI` is set and it cannot be had */
export function findSparkJar(): { readonly path: string; readonly isMissing: boolean } {
  const folder = join(tmpdir(), 'flowdrop-test-spark');
  const [, name, version] = ARTIFACT.split(':');
  const path = join(folder, `${name}-${version}.jar`);
  return { path, isMissing: isMissing('Spark', HAS_EXTERNAL && !existsSync(path) ? fetchJar(folder) : undefined) };
}

/** @returns what stood in the way */
function fetchJar(folder: string): string | undefined {
  const java = spawnSync('java', ['-version'], { encoding: 'utf8' });
  if (java.status !== 0) return 'no Java';
  const made = spawnSync(
    'mvn',
    ['-q', '-B', 'dependency:copy', `-Dartifact=${ARTIFACT}`, `-DoutputDirectory=${folder}`],
    {
      encoding: 'utf8',
      timeout: 300_000,
    },
  );
  return made.status === 0 ? undefined : `mvn: ${made.error?.message ?? (made.stdout + made.stderr).slice(-500)}`;
}
