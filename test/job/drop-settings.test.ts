/** What a job file may say of how its drops are written. The rest of the file is in `job.test.ts`. */
import { describe, expect, test } from 'vitest';
import { parseJob } from '../../src/job/parse.ts';

const write = (to: string) => `name: trades
source:
  api: historical
drop:
  to: ${to}
  dataset: trades
  s3:
    encryption: sse-kms
    kms_key: alias/drops
    storage_class: STANDARD_IA
    tags: { team: desk }
    acl: bucket-owner-full-control
`;

describe('drop.s3', () => {
  test('of a job that drops into S3 is resolved as the store takes it', () => {
    expect(parseJob('x', write('s3://bucket/drops')).drop.s3).toEqual({
      encryption: 'sse-kms',
      kmsKey: 'alias/drops',
      storageClass: 'STANDARD_IA',
      tags: { team: 'desk' },
      acl: 'bucket-owner-full-control',
    });
  });

  test.each(['out', '/var/s3', './s3://x'])(
    'of a job that drops into the directory %s is refused at its line',
    (to) => {
      expect(() => parseJob('jobs/x.yaml', write(to))).toThrow(
        expect.objectContaining({
          code: 'JOB_INVALID',
          kind: 'usage',
          message: expect.stringMatching(/x\.yaml.*drop\.s3/s),
        }),
      );
    },
  );
});
