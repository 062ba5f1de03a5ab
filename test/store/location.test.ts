/** What a `drop.to` value means. */
import { describe, expect, test } from 'vitest';
import { parseLocation } from '../../src/store/object-key.ts';

describe('a drop.to value', () => {
  test.each([
    ['s3://bucket', { kind: 's3', bucket: 'bucket', prefix: '' }],
    ['s3://bucket/', { kind: 's3', bucket: 'bucket', prefix: '' }],
    ['s3://quant-drops/options', { kind: 's3', bucket: 'quant-drops', prefix: 'options' }],
    ['s3://quant.drops/a/b c/', { kind: 's3', bucket: 'quant.drops', prefix: 'a/b c' }],
    ['S3://bucket/x', { kind: 's3', bucket: 'bucket', prefix: 'x' }],
    ['/var/drops', { kind: 'directory', path: '/var/drops' }],
    ['out', { kind: 'directory', path: '/base/out' }],
    ['./out/../drops/', { kind: 'directory', path: '/base/drops' }],
    ['../drops', { kind: 'directory', path: '/drops' }],
  ])('%s is a place', (value, location) => {
    expect(parseLocation(value, '/base')).toEqual(location);
  });

  test.each([
    ...[
      '',
      '  ',
      's3://',
      's3:///prefix',
      's3:bucket/prefix',
      's3://B/prefix',
      's3://bucket_name',
      's3://bucket/a/../b',
    ],
    ...['s3://bucket//a', 's3://bucket/a?region=x', 'http://host/path', 'https://bucket.s3.amazonaws.com/x'],
    ...['gs://bucket/prefix', 'gs:bucket', 'file:///data/x', 'out\nside'],
  ])('%j is refused with what is allowed', (value) => {
    expect(() => parseLocation(value, '/base')).toThrow(
      expect.objectContaining({ code: 'LOCATION_INVALID', kind: 'usage', hint: expect.stringContaining('s3://') }),
    );
  });
});
