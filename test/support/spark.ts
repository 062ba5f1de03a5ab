/**
 * Spark with Iceberg: `pyspark` is one of the Python readers; its Iceberg runtime and what Iceberg needs for S3 come from
 * Maven Central.
 */
import { findJar, type MavenJar } from './maven.ts';

const VERSION = '1.10.0';

/** @throws when `CI` is set and it cannot be had */
export function findSparkJar(): MavenJar {
  return findJar('Spark', `org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:${VERSION}`);
}

/** @throws when `CI` is set and it cannot be had */
export function findS3Jar(): MavenJar {
  return findJar('Spark on S3', `org.apache.iceberg:iceberg-aws-bundle:${VERSION}`);
}
