/**
 * Spark with Iceberg and S3: `pyspark` in a Python of its own, and jars from Maven Central, once for a machine. Needs Java
 * and Maven. Only `npm run nightly -- spark` has it; the readers of other languages are in CI.
 */
import { findJar } from './maven.ts';
import { IS_NIGHTLY } from './nightly.ts';
import { findPython } from './python.ts';

const ICEBERG = '1.10.0';

/** Hadoop's are those of pyspark 3.5. */
const ARTIFACTS = [
  `org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:${ICEBERG}`,
  'org.apache.hadoop:hadoop-aws:3.3.4',
  'com.amazonaws:aws-java-sdk-bundle:1.12.262',
];

/** Iceberg's own access to S3, which clients of a catalog use. */
const S3_ARTIFACT = `org.apache.iceberg:iceberg-aws-bundle:${ICEBERG}`;

export interface Spark {
  /** Python with `pyspark` and the other readers. */
  readonly path: string;
  /** A list for `spark.jars`. */
  readonly jars: string;
  /** The list of a client that reads S3 through a catalog. */
  readonly catalogJars: string;
  /** For the variable `PYSPARK_SUBMIT_ARGS` of a script that names no settings: as few tasks as can be. */
  readonly submitArgs: string;
  readonly isMissing: boolean;
}

/** @throws when `CI` is set, this is a nightly run, and it cannot be had */
export function findSpark(): Spark {
  if (!IS_NIGHTLY) return { path: '', jars: '', catalogJars: '', submitArgs: '', isMissing: true };
  const python = findPython('requirements-spark.txt');
  const found = ARTIFACTS.map((artifact) => findJar('Spark', artifact));
  const s3Jar = findJar('Spark on S3', S3_ARTIFACT);
  const jars = found.map(({ path }) => path).join(',');
  const settings = '--master local[1] --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=1';
  return {
    path: python.path,
    jars,
    catalogJars: `${jars},${s3Jar.path}`,
    submitArgs: `--jars ${jars} ${settings} pyspark-shell`,
    isMissing: [python, s3Jar, ...found].some(({ isMissing }) => isMissing),
  };
}
