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

/** `jars` is a list for `spark.jars`. @throws when `CI` is set and they cannot be had */
export function findSparkJars(): { readonly jars: string; readonly isMissing: boolean } {
  const found = ARTIFACTS.map((artifact) => findJar('Spark', artifact));
  return { jars: found.map(({ path }) => path).join(','), isMissing: found.some(({ isMissing }) => isMissing) };
}

/** Iceberg's own access to S3, which clients of a catalog use. @throws when `CI` is set and it cannot be had */
export function findS3Jar(): MavenJar {
  return findJar('Spark on S3', `org.apache.iceberg:iceberg-aws-bundle:${ICEBERG}`);
}
