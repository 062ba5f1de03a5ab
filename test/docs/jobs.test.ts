/** docs/jobs.md against the product: its keys are those of the JSON Schema, each once, with the values that the schema allows. */
import { beforeAll, describe, expect, it } from 'vitest';
import { REPORT_NUMBERS } from '../../src/report/numbers.ts';
import { flowdrop, REPO } from '../support/flowdrop.ts';
import { listItems, readPage } from '../support/pages.ts';
import { listKeyPaths } from '../support/schema-keys.ts';

const page = readPage('docs/jobs.md');
const items = listItems(page).filter(([key]) => /^[a-z][a-z0-9_.[\]]*$/.test(key));

describe('the page of job files', () => {
  let schema: unknown;
  beforeAll(async () => {
    schema = JSON.parse((await flowdrop(['schema'], { cwd: REPO })).stdout);
  });

  it('has each key of the schema, and no other', () => {
    const listed = items.map(([key]) => key);
    expect(listed.length).toBeGreaterThan(40);
    expect(listed.sort()).toEqual([...listKeyPaths(schema)].sort());
  });

  it('allows every value that the schema lists', () => {
    const choices = listChoices(schema).filter(([key]) => key !== 'source.types' && !key.endsWith('.number'));
    expect(choices.length).toBeGreaterThan(8);
    for (const [key, values] of choices) {
      const text = items.find(([name]) => name === key)?.[1];
      for (const value of values) expect(text, key).toContain(`\`${value}\``);
    }
    expect(/^Numbers of `only_when`: (.*)\.$/m.exec(page)?.[1]?.split(', ')).toEqual([...REPORT_NUMBERS]);
  });
});

/** Keys whose values are a list, with the list. */
function listChoices(node: unknown, path = ''): readonly (readonly [string, readonly string[]])[] {
  const { properties, items, oneOf, anyOf, ...rest } = node as {
    readonly properties?: Readonly<Record<string, unknown>>;
    readonly items?: unknown;
    readonly oneOf?: readonly unknown[];
    readonly anyOf?: readonly unknown[];
    readonly enum?: readonly unknown[];
  };
  const choice = oneOf ?? anyOf;
  if (choice) return choice.flatMap((shape) => listChoices(shape, path));
  const isList = (items as { enum?: unknown } | undefined)?.enum !== undefined;
  if (items !== undefined) return listChoices(items, isList ? path : `${path}[]`);
  if (rest.enum) return [[path, rest.enum.map(String)]];
  return Object.entries(properties ?? {}).flatMap(([key, value]) =>
    listChoices(value, path === '' ? key : `${path}.${key}`),
  );
}
