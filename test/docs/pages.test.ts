/** All pages together: each says at once for whom it is, and is found from the index. Their blocks and links: `blocks.test.ts`. */
import { expect, it } from 'vitest';
import { PAGES, readPage } from '../support/pages.ts';

const pages = PAGES.filter((page) => page.startsWith('docs/'));

it.each(pages)('%s begins with its title, and a paragraph that says for whom it is', (page) => {
  expect(readPage(page)).toMatch(/^# .+\n\nFor [a-z]/);
});

it('the index leads to every page', () => {
  const index = readPage('docs/README.md');
  const unlisted = pages.filter((page) => page !== 'docs/README.md' && !index.includes(`](${page.slice(5)})`));
  expect(unlisted).toEqual([]);
});
