/**
 * Spark with Iceberg and S3: `pyspark` is one of the Python readers, and the jars come from Maven Central, once for a
 * machine. Needs Java and Maven.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HAS_EXTERNAL, isMissing } from './external.ts';

/** The last two are those of the Hadoop in pyspark 3.5. */
const ARTIFACTS = [
  'org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.0',
  'org.apache.hadoop:hadoop-aws:3.3.4',
  'com.amazonaws:aws-java-sdk-bundle:1.12.262',
];

export interface Spark {
  /** A list for `spark.jars`. */
  readonly jars: string;
  /** For the variable `PYSPARK_SUBMIT_ARGS` of a script that names no settings: as few tasks as can be. */
  readonly submitArgs: string;
  readonly isMissing: boolean;
}

/** @throws when `CI` is set and they cannot be had */
export function findSparkJars(): Spark {
  const folder = join(tmpdir(), 'flowdrop-test-spark');
  const pathOf = (artifact: string) => {
    const [, name, version] = artifact.split(':');
    return join(folder, `${name}-${version}.jar`);
  };
  const missing = ARTIFACTS.filter((artifact) => !existsSync(pathOf(artifact)));
  const obstacle = HAS_EXTERNAL ? missing.map((artifact) => fetchJar(artifact, folder)).find(Boolean) : undefined;
  const jars = ARTIFACTS.map(pathOf).join(',');
  const settings = '--master local[1] --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=1';
  return { jars, submitArgs: `--jars ${jars} ${settings} pyspark-shell`, isMissing: isMissing('Spark', obstacle) };
}

/** @returns what stood in the way */
function fetchJar(artifact: string, folder: string): string | undefined {
  const java = spawnSync('java', ['-version'], { encoding: 'utf8' });
  if (java.status !== 0) return 'no Java';
  const made = spawnSync(
    'mvn',
    ['-q', '-B', 'dependency:copy', `-Dartifact=${artifact}`, `-DoutputDirectory=${folder}`],
    { encoding: 'utf8', timeout: 300_000 },
  );
  return made.status === 0 ? undefined : `mvn: ${made.error?.message ?? (made.stdout + made.stderr).slice(-500)}`;
}
