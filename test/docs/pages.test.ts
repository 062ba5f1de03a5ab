/** All pages together: each says at once for whom it is, and is found from the index. Their blocks and links: `blocks.test.ts`. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { REPO } from '../support/flowdrop.ts';
import { PAGES, readPage } from '../support/pages.ts';

/** Of the notebook with its plots. */
const MAX_BYTES = 250_000;

const pages = PAGES.filter((page) => page.startsWith('docs/'));

it.each(pages)('%s begins with its title, and a paragraph that says for whom it is', (page) => {
  expect(readPage(page)).toMatch(/^# .+\n\nFor [a-z]/);
});

it('the index leads to every page', () => {
  const index = readPage('docs/README.md');
  const unlisted = pages.filter((page) => page !== 'docs/README.md' && !index.includes(`](${page.slice(5)})`));
  expect(unlisted).toEqual([]);
});

it('the lockfile of the site generator has no download addresses', () => {
  expect(readFileSync(join(REPO, 'docs/.vitepress/package-lock.json'), 'utf8')).not.toContain('"resolved"');
});

it('the notebook has its four plots, is small, and has no failed cell', () => {
  const bytes = readFileSync(join(REPO, 'docs', 'flow.ipynb'));
  const { cells } = JSON.parse(bytes.toString()) as {
    readonly cells: readonly {
      readonly outputs?: readonly { readonly output_type: string; readonly data?: object }[];
    }[];
  };
  const outputs = cells.flatMap((cell) => cell.outputs ?? []);
  expect(outputs.filter(({ data = {} }) => 'image/png' in data)).toHaveLength(4);
  expect(outputs.filter(({ output_type: type }) => type === 'error')).toEqual([]);
  expect(bytes.length).toBeLessThan(MAX_BYTES);
});
