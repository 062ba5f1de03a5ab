/** The section `drop` of a job file, as the user writes it. A part of `shape.ts`. */
import { z } from 'zod';
import { RESERVED_DATASETS } from '../store/object-key.ts';
import { camelCase, identifierSchema, nameSchema, orNull } from './plain-shape.ts';

const s3Schema = z
  .strictObject({
    encryption: z
      .enum(['sse-s3', 'sse-kms'])
      .optional()
      .describe('Server-side encryption. Default: as set for the bucket.'),
    kms_key: z
      .string()
      .min(1)
      .optional()
      .describe('Key of `sse-kms`: id, ARN or alias. Default: as set for the bucket.'),
    storage_class: z
      .string()
      .regex(/^[A-Z][A-Z0-9_]*$/, 'a storage class like STANDARD_IA')
      .optional()
      .describe('Storage class of the drops. Default: as set for the bucket.'),
    tags: z
      .record(z.string().min(1).max(128), z.string().max(256))
      .optional()
      .describe('Tags of every object, at most 10.'),
    acl: z
      .enum(['private', 'bucket-owner-read', 'bucket-owner-full-control', 'authenticated-read', 'public-read'])
      .optional()
      .describe('Canned ACL. Default: none.'),
  })
  .superRefine((s3, context) => {
    const fail = (key: string, message: string) => context.addIssue({ code: 'custom', path: [key], message });
    if (s3.kms_key !== undefined && s3.encryption !== 'sse-kms')
      fail('kms_key', 'is only allowed with `encryption: sse-kms`');
    if (Object.keys(s3.tags ?? {}).length > 10) fail('tags', 'S3 allows at most 10 tags');
  })
  .transform(camelCase);

const addressOfCatalog = z
  .url({ protocol: /^https?$/, error: 'an http or https address' })
  .refine((text) => !/[?#@]/.test(text), 'an address without user, password and query');

const catalogSchema = z
  .strictObject({
    uri: addressOfCatalog.describe('Address of the catalog, before /v1/config.'),
    warehouse: orNull(z.string().min(1)).describe('Warehouse, as the catalog calls it. Default: its only one.'),
    namespace: z
      .string()
      .regex(/^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/, 'letters, digits, - and _, parts separated by dots')
      .default('flowdrop')
      .describe('Namespace of the table; created if missing. Default: flowdrop.'),
    table: z
      .string()
      .regex(/^[A-Za-z0-9_-]+$/, 'letters, digits, - and _')
      .optional()
      .describe('Name of the table. Default: the dataset.'),
    oauth_uri: orNull(addressOfCatalog).describe(
      'Where FLOWDROP_CATALOG_CREDENTIAL is exchanged for a token. Default: /v1/oauth/tokens of the catalog.',
    ),
    scope: z.string().min(1).default('catalog').describe('OAuth 2 scope of that token. Default: catalog.'),
  })
  .transform(camelCase);

export const dropSchema = z.strictObject({
  to: z.string().min(1, 's3://bucket/prefix or a directory').describe('s3://bucket/prefix or a directory.'),
  dataset: nameSchema
    .refine((name) => !RESERVED_DATASETS.includes(name), {
      error: `is reserved for flowdrop's own folders (reserved: ${RESERVED_DATASETS.join(', ')})`,
    })
    .describe('Name of the dataset in the store.'),
  table: orNull(z.enum(['iceberg'])).describe(
    '`iceberg`: the dataset is also an Iceberg table, and a restated date gets a new file instead of replacing the old one. Default: files only.',
  ),
  catalog: catalogSchema.optional().describe('Iceberg REST catalog that also has the table; needs `table`.'),
  sort: z.array(identifierSchema).nonempty().optional().describe('Sort order. Default: symbol, time, id.'),
  compression: z
    .enum(['zstd', 'snappy', 'gzip'])
    .default('zstd')
    .describe(
      'Compression of new drops. `snappy` or `gzip` for readers without Zstandard; their files are larger. Default: zstd.',
    ),
  s3: s3Schema.optional().describe('How objects are written to S3.'),
});
