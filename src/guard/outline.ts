/**
 * The lines of an EXPLAIN as a tree. Invariant: depth comes from the indentation and nothing is guessed; what a line means
 * is its reader's matter. Pure.
 */

export interface OutlineNode {
  /** The line without its indentation. */
  readonly text: string;
  readonly children: readonly OutlineNode[];
}

interface OpenNode extends OutlineNode {
  readonly children: OpenNode[];
}

/** @param indent spaces for each level @returns `undefined` when the lines are not one tree */
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
