/** docs/commands.md against the product: the page is the table of commands, and its exit codes are those of the code. */
import { expect, it } from 'vitest';
import { EXIT_CODES } from '../../src/core/errors.ts';
import { readPage } from '../support/pages.ts';
import { buildCommandsPage } from './commands-page.ts';

// `npx vitest run test/docs/commands.test.ts -u` writes it again.
it('the page of commands is what the table of commands says', async () => {
  await expect(buildCommandsPage()).toMatchFileSnapshot('../../docs/commands.md');
});

it('the page of commands lists the exit codes that the code uses', () => {
  const codes = [...readPage('docs/commands.md').matchAll(/^- (\d+): /gm)].map((match) => Number(match[1]));
  expect(codes).toEqual([0, ...Object.values(EXIT_CODES)].sort((a, b) => a - b));
});
