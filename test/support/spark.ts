/**
 * Spark with Iceberg and S3: `pyspark` is one of the Python readers, and the jars come from Maven Central, once for a
 * machine. Needs Java and Maven.
 */
import { findJar, type MavenJar } from './maven.ts';

const ICEBERG = '1.10.0';

/** The last two are those of the Hadoop in pyspark 3.5. */
const ARTIFACTS = [
  `org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:${ICEBERG}`,
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
  const found = ARTIFACTS.map((artifact) => findJar('Spark', artifact));
  const jars = found.map(({ path }) => path).join(',');
  const settings = '--master local[1] --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=1';
  return {
    jars,
    submitArgs: `--jars ${jars} ${settings} pyspark-shell`,
    isMissing: found.some(({ isMissing }) => isMissing),
  };
}

/** Iceberg's own access to S3, which clients of a catalog use. @throws when `CI` is set and it cannot be had */
export function findS3Jar(): MavenJar {
  return findJar('Spark on S3', `org.apache.iceberg:iceberg-aws-bundle:${ICEBERG}`);
}
