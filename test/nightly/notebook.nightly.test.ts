/**
 * docs/flow.ipynb: every cell runs over drops of a real run, as a reader's Jupyter runs it, and draws what the committed
 * notebook shows. The committed plots are of the demo's sessions of one day, so they are not compared dot by dot.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runShipped } from '../docs/shipped-job.ts';
import { makeFolder, REPO } from '../support/flowdrop.ts';
import { findPython } from '../support/python.ts';

/** Skipped where Python or its packages cannot be had, which `support/python.ts` says aloud; CI never skips it. */
const python = findPython('requirements-notebook.txt');

const PAGE = join(REPO, 'docs', 'flow.ipynb');

/** Runs a notebook in the working directory, and writes it with its outputs. A cell that fails ends it. */
const RUN = `
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], 4)
NotebookClient(notebook, timeout=300, record_timing=False).execute()
nbformat.write(notebook, sys.argv[2])
`;

interface Notebook {
  readonly cells: readonly {
    readonly source: string | readonly string[];
    readonly outputs?: readonly { readonly output_type: string; readonly data?: Readonly<Record<string, unknown>> }[];
  }[];
}

const read = (path: string) => JSON.parse(readFileSync(path, 'utf8')) as Notebook;
/** What each cell gives: texts, pictures, tables, errors. */
const listOutputs = ({ cells }: Notebook) =>
  cells.map(({ outputs = [] }) =>
    outputs.map(({ output_type: type, data = {} }) => [type, ...Object.keys(data)].join(' ')),
  );

describe('the notebook', () => {
  it.skipIf(python.isMissing)(
    'runs over drops, and each cell gives what the committed one shows',
    async () => {
      const { path: cwd, remove } = await makeFolder();
      try {
        await runShipped(cwd, { generated: ['--generate', '2', '--generate-rows', '20000'] });
        const done = spawnSync(python.path, ['-c', RUN, PAGE, 'done.ipynb'], { cwd, encoding: 'utf8' });
        expect(done.status, done.stderr).toBe(0);
        expect(listOutputs(read(join(cwd, 'done.ipynb')))).toEqual(listOutputs(read(PAGE)));
      } finally {
        await remove();
      }
    },
    400_000,
  );
});
