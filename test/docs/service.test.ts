/** docs/service.md against the product: its options are those of `flowdrop serve`. */
import { expect, it } from 'vitest';
import { formatFlag } from '../../src/cli/command.ts';
import { COMMANDS } from '../../src/cli/commands.ts';
import { readSection } from '../support/pages.ts';

it('the page of the service lists exactly the options of the service', () => {
  const { options = {} } = COMMANDS.find(({ name }) => name === 'serve') ?? {};
  const text = readSection('docs/service.md', 'Options');
  const listed = [...text.matchAll(/^- ((?:`--[^`]+`(?:, )?)+)/gm)].flatMap(([, flags = '']) =>
    [...flags.matchAll(/--[a-z][a-z-]*/g)].map(([name]) => name),
  );
  expect(listed.length).toBeGreaterThan(15);
  expect(listed.sort()).toEqual(Object.keys(options).map(formatFlag).sort());
});
