/**
 * docs/security.md against the product: the S3 policies allow the actions of the requests that the store sends and no
 * others, and the modules and tests that are named as defences exist.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { buildWriteSettings } from '../../src/store/s3-client.ts';
import { REPO } from '../support/flowdrop.ts';
import { listCodes, readSection } from '../support/pages.ts';

const PAGE = 'docs/security.md';

/** Actions that each request of S3 needs. Source: AWS, "Required permissions for Amazon S3 API operations". */
const ACTIONS_OF: Readonly<Record<string, readonly string[]>> = {
  GetObjectCommand: ['s3:GetObject'],
  HeadObjectCommand: ['s3:GetObject'],
  PutObjectCommand: ['s3:PutObject'],
  CopyObjectCommand: ['s3:GetObject', 's3:PutObject'],
  DeleteObjectCommand: ['s3:DeleteObject'],
  paginateListObjectsV2: ['s3:ListBucket'],
};

/** Actions that a parameter of a writing request needs besides. */
const ACTIONS_WITH: Readonly<Record<string, readonly string[]>> = {
  Tagging: ['s3:PutObjectTagging'],
  ACL: ['s3:PutObjectAcl'],
  SSEKMSKeyId: ['kms:GenerateDataKey', 'kms:Decrypt'],
  // Rights of the bucket's own: no action.
  ContentType: [],
  ServerSideEncryption: [],
  StorageClass: [],
};

interface Policy {
  readonly Version: string;
  readonly Statement: readonly { readonly Effect: string; readonly Action: string | readonly string[] }[];
}

const policies = ['worker', 'extras', 'reader'].map(
  (name) => JSON.parse(readFileSync(join(REPO, `docs/examples/s3-${name}.json`), 'utf8')) as Policy,
);
const actionsOf = (policy: Policy | undefined) => (policy?.Statement ?? []).flatMap(({ Action }) => Action).sort();
const unique = (names: readonly string[]) => [...new Set(names)].sort();

/** Requests that the files import from the SDK's client. */
function listRequests(files: readonly string[]): readonly string[] {
  const text = files.map((name) => readFileSync(join(REPO, 'src', 'store', name), 'utf8')).join('\n');
  return unique(
    [...text.matchAll(/\b(?:new ([A-Z]\w+Command)\(|(paginate[A-Z]\w+)\()/g)].map(([, a, b]) => a ?? b ?? ''),
  );
}

describe('the page of security', () => {
  const requests = listRequests(readdirSync(join(REPO, 'src', 'store')));

  it('has a policy for the worker with exactly the actions of the requests that the store sends', () => {
    expect(requests.filter((name) => ACTIONS_OF[name] === undefined)).toEqual([]);
    expect(requests.length).toBeGreaterThan(5);
    expect(actionsOf(policies[0])).toEqual(unique(requests.flatMap((name) => ACTIONS_OF[name] ?? [])));
  });

  it('has a policy for tags, ACLs and KMS with exactly the actions that the settings of a job need', () => {
    const settings = buildWriteSettings(
      { encryption: 'sse-kms', kmsKey: 'k', storageClass: 'STANDARD_IA', tags: { a: 'b' }, acl: 'private' },
      'trades/session=2026-11-19/trades.parquet',
    );
    expect(Object.keys(settings).filter((name) => ACTIONS_WITH[name] === undefined)).toEqual([]);
    expect(actionsOf(policies[1])).toEqual(unique(Object.keys(settings).flatMap((name) => ACTIONS_WITH[name] ?? [])));
  });

  it('has a policy for readers that changes nothing', () => {
    expect(actionsOf(policies[2])).toEqual(['s3:GetObject', 's3:ListBucket']);
    for (const { Version, Statement } of policies) {
      expect([Version, ...new Set(Statement.map(({ Effect }) => Effect))]).toEqual(['2012-10-17', 'Allow']);
    }
  });

  it('names modules and tests that exist', () => {
    const named = listCodes(readSection(PAGE, 'Threats')).filter((code) => /^(src|test)\//.test(code));
    expect(named.length).toBeGreaterThan(40);
    expect(named.filter((path) => !existsSync(join(REPO, path)))).toEqual([]);
  });
});
