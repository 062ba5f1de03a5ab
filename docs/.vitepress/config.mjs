/**
 * The pages as a static site with offline search: `npm run docs` builds it into out/site. Its generator has its own package
 * and lockfile, so installing flowdrop does not install it. A dead link fails the build.
 */
import { cp, readFile, writeFile } from 'node:fs/promises';

/** The pages in the order of docs/README.md. */
const groups = [
  ['Start', [['Tutorial', 'tutorial']]],
  [
    'Guides',
    [
      ['Recipes', 'recipes'],
      ['Python', 'python'],
      ['Query', 'query'],
      ['Operations', 'operations'],
      ['Service', 'service'],
      ['ClickHouse', 'clickhouse'],
    ],
  ],
  [
    'Reference',
    [
      ['Commands', 'commands'],
      ['Job files', 'jobs'],
      ['Settings', 'settings'],
      ['Data dictionary', 'data'],
      ['Drops', 'drops'],
      ['Events', 'events'],
      ['The log', 'log'],
    ],
  ],
  [
    'Explanation',
    [
      ['Formulas', 'formulas'],
      ['Security', 'security'],
      ['Architecture', 'architecture'],
      ['Develop', 'develop'],
    ],
  ],
];

// Links to these are links to files, not to pages.
process.env.VITE_EXTRA_EXTENSIONS = 'ipynb,mjs,json,py,sql';

export default {
  title: 'flowdrop',
  description: 'Every U.S. option trade, one verified Parquet file a day, and a flow report by mail',
  srcDir: '..',
  srcExclude: ['**/node_modules/**', 'out/**', 'dist/**', 'test/**', 'src/**', 'templates/**'],
  outDir: '../out/site',
  cacheDir: '../out/site-cache',
  rewrites: { 'README.md': 'index.md' },
  // Not pages: the reader's own machine, and a file that is copied below.
  ignoreDeadLinks: ['localhostLinks', /NOTICE$/],
  // Files that pages link to.
  async buildEnd({ outDir }) {
    for (const name of ['jobs', 'deploy', 'docs/flow.ipynb', 'docs/examples']) {
      await cp(new URL(`../../${name}`, import.meta.url), `${outDir}/${name}`, { recursive: true });
    }
    // VitePress treats a link without an extension as a page.
    const notice = await readFile(new URL('../../NOTICE', import.meta.url), 'utf8');
    await writeFile(`${outDir}/NOTICE.html`, `<pre>${notice.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</pre>\n`);
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [{ text: 'All pages', link: '/docs/README' }],
    sidebar: groups.map(([text, pages]) => ({
      text,
      items: pages.map(([title, page]) => ({ text: title, link: `/docs/${page}` })),
    })),
  },
};
