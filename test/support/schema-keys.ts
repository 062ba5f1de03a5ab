/** The keys of a job file, as the product's own JSON Schema (`flowdrop schema`) names them. */

interface SchemaNode {
  readonly properties?: Readonly<Record<string, unknown>>;
  readonly items?: unknown;
  readonly oneOf?: readonly unknown[];
  readonly anyOf?: readonly unknown[];
}

/**
 * Dotted key paths of a JSON Schema; items of lists are marked `[]`. A choice of shapes has the keys of all.
 * @returns paths of values that have no keys of their own
 */
export function listKeyPaths(schema: unknown, path = ''): readonly string[] {
  const node = schema as SchemaNode;
  const choice = node.oneOf ?? node.anyOf;
  if (choice) return [...new Set(choice.flatMap((shape) => listKeyPaths(shape, path)))];
  if (node.items !== undefined) {
    const inner = listKeyPaths(node.items, `${path}[]`);
    // A list of plain values is one key: `source.columns`, not `source.columns[]`.
    return [...new Set(inner.map((key) => (key === `${path}[]` ? path : key)))];
  }
  if (!node.properties) return [path];
  return Object.entries(node.properties).flatMap(([key, value]) =>
    listKeyPaths(value, path === '' ? key : `${path}.${key}`),
  );
}
