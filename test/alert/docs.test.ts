/**
 * `docs/operations.md` and `docs/events.md` against the product: the alerts, codes and documents that they name exist. Their
 * commands, options and links are in `test/docs/blocks.test.ts`.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { CAUSE_KINDS, severityOf } from '../../src/alert/cause-table.ts';
import { buildNotice, type Notice } from '../../src/alert/notice.ts';
import { signWebhook } from '../../src/mail/webhook.ts';
import { REPO } from '../support/flowdrop.ts';

const page = readFileSync(join(REPO, 'docs', 'operations.md'), 'utf8');
const events = readFileSync(join(REPO, 'docs', 'events.md'), 'utf8');
const block = (language: string) => events.split(`\`\`\`${language} check\n`)[1]?.split('```')[0] ?? '';
const source = readdirSync(join(REPO, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => readFileSync(join(REPO, 'src', name), 'utf8'))
  .join('\n');

describe('the page of operations', () => {
  it('lists exactly the alerts that there are, with their severity', () => {
    const rows = [...page.matchAll(/^\| `([a-z-]+)` +\| (critical|error|warning) /gm)];
    expect(Object.fromEntries(rows.map(([, kind, severity]) => [kind, severity]))).toEqual(
      Object.fromEntries(CAUSE_KINDS.map((kind) => [kind, severityOf(kind)])),
    );
  });

  it('names codes that the code has', () => {
    const codes = new Set([...page.matchAll(/`([A-Z]+(?:_[A-Z]+)+)`/g)].map(([, code = '']) => code));
    expect(codes.size).toBeGreaterThan(10);
    expect([...codes].filter((code) => !source.includes(code))).toEqual([]);
  });

  it('shows the document as it is posted', () => {
    const example = JSON.parse(readFileSync(join(REPO, 'docs/examples/alert.json'), 'utf8')) as Notice;
    const [alerts, recovered] = [example.alerts, example.recovered].map((list) =>
      list.map((one) => ({ ...one, first_seen: one.since })),
    );
    const posted = buildNotice(example, alerts ?? [], recovered ?? []);
    expect({ ...posted, text: '' }).toEqual({ ...example, text: '' });
    expect(Object.keys(posted)).toEqual(Object.keys(example));
    expect(posted.text.split('\n')[0]).toBe(
      'flowdrop [critical] nightly-trades: 2026-11-06 is not sealed and expires soon',
    );
  });

  it('shows how to verify a signature, in code that does', async () => {
    const url = `data:text/javascript,${encodeURIComponent(block('js webhook'))}`;
    const { isFromFlowdrop } = (await import(/* @vite-ignore */ url)) as {
      isFromFlowdrop(headers: Record<string, string>, body: string, secret: string, nowSeconds: number): boolean;
    };
    const signature = `sha256=${signWebhook('secret', '1000', '{"a":1}')}`;
    const headers = { 'x-flowdrop-timestamp': '1000', 'x-flowdrop-signature': signature };
    expect(isFromFlowdrop(headers, '{"a":1}', 'secret', 1010)).toBe(true);
    expect(isFromFlowdrop(headers, '{"a":2}', 'secret', 1010)).toBe(false);
    expect(isFromFlowdrop(headers, '{"a":1}', 'other', 1010)).toBe(false);
    expect(isFromFlowdrop(headers, '{"a":1}', 'secret', 2000)).toBe(false);
    expect(isFromFlowdrop({ ...headers, 'x-flowdrop-timestamp': '1001' }, '{"a":1}', 'secret', 1010)).toBe(false);
    expect(isFromFlowdrop({}, '{"a":1}', 'secret', 1010)).toBe(false);
  });
});
