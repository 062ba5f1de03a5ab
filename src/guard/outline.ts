/**
 * Parses the lines of an EXPLAIN into a tree. Invariant: depth comes only from the indentation; nothing is guessed. Its
 * callers interpret the lines. Pure.
 */

export interface OutlineNode {
  /** The line without its indentation. */
  readonly text: string;
  readonly children: readonly OutlineNode[];
}

interface OpenNode extends OutlineNode {
  readonly children: OpenNode[];
}

/** @param indent spaces per level @returns `undefined` when the lines do not form one tree */
export function parseOutline(lines: readonly string[], indent: number): OutlineNode | undefined {
  const path: OpenNode[] = [];
  let root: OutlineNode | undefined;
  for (const line of lines) {
    const text = line.replace(/^ +/, '');
    const depth = (line.length - text.length) / indent;
    if (text === '' || !Number.isInteger(depth) || depth > path.length || (depth === 0 && root)) return undefined;
    const node: OpenNode = { text, children: [] };
    path.length = depth;
    path[depth - 1]?.children.push(node);
    path.push(node);
    root ??= node;
  }
  return root;
}
