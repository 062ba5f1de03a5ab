/** docs/jobs.md against the product: its keys are those of the JSON Schema, each once; the values it allows are the schema's. */
import { beforeAll, describe, expect, it } from 'vitest';
import { REPORT_NUMBERS } from '../../src/report/numbers.ts';
import { flowdrop, REPO } from '../support/flowdrop.ts';
import { listCodes, listRows, readPage } from '../support/pages.ts';
import { listKeyPaths } from '../support/schema-keys.ts';

const page = readPage('docs/jobs.md');
const rows = listRows(page);

describe('the page of job files', () => {
  let schema: unknown;
  beforeAll(async () => {
    schema = JSON.parse((await flowdrop(['schema'], { cwd: REPO })).stdout);
  });

  it('has a row for each key of the schema, and for no other', () => {
    const listed = rows.map(([cell = '']) => listCodes(cell)[0]);
    expect(listed.length).toBeGreaterThan(40);
    expect([...listed].sort()).toEqual([...listKeyPaths(schema)].sort());
  });

  it('allows every value that the schema lists', () => {
    const choices = listChoices(schema).filter(([key]) => key !== 'source.types' && !key.endsWith('.number'));
    expect(choices.length).toBeGreaterThan(8);
    for (const [key, values] of choices) {
      const row = rows.find(([cell = '']) => listCodes(cell)[0] === key);
      for (const value of values) expect(row?.[2], key).toContain(`\`${value}\``);
    }
    expect(/^Numbers of `only_when`: (.*)\.$/m.exec(page)?.[1]?.split(', ')).toEqual([...REPORT_NUMBERS]);
  });

  it('says of every key what it means, what is allowed and what holds without it', () => {
    for (const row of rows) {
      expect(row, row[0]).toHaveLength(5);
      for (const cell of row.slice(1, 4)) expect(cell, row[0]).not.toBe('');
    }
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
