/** docs/jobs.md against the product: its keys are those of the JSON Schema, each once, with the values that the schema allows. */
import { beforeAll, describe, expect, it } from 'vitest';
import { REPORT_NUMBERS } from '../../src/report/numbers.ts';
import { flowdrop, REPO } from '../support/flowdrop.ts';
import { listItems, readPage } from '../support/pages.ts';

const page = readPage('docs/jobs.md');
const items = listItems(page).filter(([key]) => /^[a-z][a-z0-9_.[\]]*$/.test(key));

describe('the page of job files', () => {
  let keys: ReturnType<typeof listKeys>;
  beforeAll(async () => {
    keys = listKeys(JSON.parse((await flowdrop(['schema'], { cwd: REPO })).stdout));
  });

  it('has each key of the schema, and no other', () => {
    const listed = items.map(([key]) => key);
    expect(listed.length).toBeGreaterThan(40);
    expect(listed.sort()).toEqual([...new Set(keys.map(([key]) => key))].sort());
  });

  it('allows every value that the schema lists', () => {
    const choices = keys.filter(([key]) => key !== 'source.types' && !key.endsWith('.number'));
    expect(choices.filter(([, values]) => values.length > 0).length).toBeGreaterThan(8);
    for (const [key, values] of choices) {
      const text = items.find(([name]) => name === key)?.[1];
      for (const value of values) expect(text, key).toContain(`\`${value}\``);
    }
    expect(/^Numbers of `only_when`: (.*)\.$/m.exec(page)?.[1]?.split(', ')).toEqual([...REPORT_NUMBERS]);
  });
});

interface SchemaNode {
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly items?: SchemaNode;
  readonly oneOf?: readonly SchemaNode[];
  readonly anyOf?: readonly SchemaNode[];
  readonly enum?: readonly unknown[];
}

/**
 * Dotted paths of the values that have no keys of their own, with the values that are allowed, if they are listed. Items of
 * lists are marked `[]`, but a list of plain values is one key: `source.columns`. A choice of shapes has the keys of all.
 */
function listKeys(node: SchemaNode, path = ''): readonly (readonly [key: string, values: readonly string[]])[] {
  const choice = node.oneOf ?? node.anyOf;
  if (choice) return choice.flatMap((shape) => listKeys(shape, path));
  if (node.items) {
    return listKeys(node.items, `${path}[]`).map(([key, values]) => [key === `${path}[]` ? path : key, values]);
  }
  if (!node.properties) return [[path, (node.enum ?? []).map(String)]];
  return Object.entries(node.properties).flatMap(([key, value]) =>
    listKeys(value, path === '' ? key : `${path}.${key}`),
  );
}
