/**
 * `npm run docs`: the pages as a static site. Its generator comes from npm, into a folder of its own. What is looked at:
 * every page is there, nothing in it leads nowhere, and the search has an index and needs no server.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { isMissing } from '../support/external.ts';
import { REPO } from '../support/flowdrop.ts';
import { PAGES } from '../support/pages.ts';

const SITE = join(REPO, 'out', 'site');

/** Skipped where npm's registry cannot be reached, which is said aloud; CI never skips it. */
const isSkipped = isMissing('the generator of the docs site', build());

describe.skipIf(isSkipped)('the site of the docs', () => {
  const listFiles = (end: string) =>
    readdirSync(SITE, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith(end));

  it('has every page', () => {
    const wanted = PAGES.map((page) => (page === 'README.md' ? 'index.html' : page.replace(/\.md$/, '.html')));
    expect(wanted.filter((page) => !existsSync(join(SITE, page)))).toEqual([]);
  });

  it('has no link to a file that is not there, and loads nothing from elsewhere', () => {
    const wrong = listFiles('.html').flatMap((page) => {
      const text = readFileSync(join(SITE, page), 'utf8');
      const links = [...text.matchAll(/(?:href|src)="([^"#?]+)/g)].map(([, link = '']) => link);
      const own = links.filter((link) => !/^(https?|mailto|data):/.test(link));
      const lost = own.filter(
        (link) => !existsSync(link.startsWith('/') ? join(SITE, link) : join(SITE, page, '..', link)),
      );
      const loaded = [...text.matchAll(/<(?:script|link|img)[^>]+(?:href|src)="(https?:[^"]+)/g)].map(
        ([, link = '']) => link,
      );
      return [...lost, ...loaded].map((link) => `${page}: ${link}`);
    });
    expect(wrong).toEqual([]);
  });

  it('has a search index with the words of the pages', () => {
    const [index = ''] = listFiles('.js').filter((name) => name.includes('localSearchIndex'));
    const text = readFileSync(join(SITE, index), 'utf8').toLowerCase();
    // A page, a section, and words of a table: what is not found is named, not the whole index.
    const wanted = ['/docs/data.html#greeks-and-volatility', '0dte share', '"polars"', '"redis"'];
    expect(wanted.filter((words) => !text.includes(words))).toEqual([]);
  });
});

/** @returns what stood in the way @throws when the pages are at fault */
function build(): string | undefined {
  const run = spawnSync('npm', ['run', 'docs'], { cwd: REPO, encoding: 'utf8', timeout: 400_000 });
  if (run.status === 0) return undefined;
  const said = `${run.stdout}${run.stderr}`.slice(-2_000);
  if (said.includes('vitepress v')) throw new Error(said);
  return said;
}
