/**
 * `flowdrop mcp`: tools for an assistant over the sealed drops, by the Model Context Protocol on stdin and stdout, until the
 * client closes stdin. Invariants: stdout has only messages of the protocol; a tool only reads; what goes wrong is an answer
 * to the assistant, in the words of the command line.
 */
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { z } from 'zod';
import { MAX_TABLE_ROWS } from '../../archive/output-format.ts';
import { Fault } from '../../core/errors.ts';
import { countOf } from '../../core/units.ts';
import { type Call, type Cli, usage } from '../context.ts';
import { type AskedStore, type AskingCli, openAskedStore } from '../query/asked-store.ts';
import { answerDescribe } from './describe-tool.ts';
import { answerQuery } from './query-tool.ts';
import { answerReport } from './report-tool.ts';

/** Clients give a tool 60 seconds by default; the answer must come before. */
const DEFAULT_TIMEOUT_SECONDS = 45;
const MAX_TIMEOUT_SECONDS = 3_600;
/** As many rows as an assistant usually reads. */
const DEFAULT_ROWS = 200;
/** Assistants call tools side by side; the statements run one after another. */
const MAX_WAITING = 16;

const annotations = { readOnlyHint: true, openWorldHint: false };
const INSTRUCTIONS =
  "Sealed U.S. option trades and their mailed reports. Call `describe` first. SQL is ClickHouse's; conditions on `date` make it fast. Say which dates an answer rests on, and name its gaps.";

export async function mcp(cli: Cli, { options }: Call<'mcp'>) {
  const { terminal, signal } = cli;
  const { server, close } = createToolServer(cli, options);
  // As `main.ts` gives them, they are those of the process.
  const [input, output] = [terminal.stdin as Readable, terminal.stdout as Writable];
  try {
    const isOver = once(input, 'end', { signal });
    await server.connect(new StdioServerTransport(input, output));
    await isOver.catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
  } finally {
    await close();
  }
  return undefined;
}

/** The tools, not connected yet; the store is opened when it is first needed. @throws Fault `USAGE` */
export function createToolServer(cli: AskingCli & Pick<Cli, 'describe'>, options: Call<'mcp'>['options']) {
  const { timeout: timeoutSeconds = DEFAULT_TIMEOUT_SECONDS } = options;
  if (!(timeoutSeconds > 0 && timeoutSeconds <= MAX_TIMEOUT_SECONDS)) {
    const allowed = `allowed is a number of seconds above 0, up to ${MAX_TIMEOUT_SECONDS}`;
    throw usage(`--timeout is ${timeoutSeconds}; ${allowed}`, 'flowdrop mcp --timeout 45');
  }
  let opening: Promise<AskedStore> | undefined;
  const open = async () => {
    opening ??= openAskedStore(cli, options, MAX_WAITING);
    // The next call tries again: the store may be reachable then.
    opening.catch(() => {
      opening = undefined;
    });
    return await opening;
  };
  const answer = async (signal: AbortSignal, find: (asked: AskedStore, signal: AbortSignal) => Promise<object>) => {
    let timeout: AbortSignal | undefined;
    try {
      const asked = await open();
      timeout = AbortSignal.timeout(timeoutSeconds * 1_000);
      const text = JSON.stringify(await find(asked, AbortSignal.any([signal, timeout])));
      return { content: [{ type: 'text' as const, text }] };
    } catch (error) {
      const { text } = cli.describe(timeout?.aborted ? createTimeout(timeoutSeconds) : error);
      return { content: [{ type: 'text' as const, text: text.trim() }], isError: true };
    }
  };
  const { version, docsDir } = cli.openers;
  const server = new McpServer({ name: 'flowdrop', version }, { instructions: INSTRUCTIONS });
  server.registerTool(
    'query',
    {
      description:
        'Runs one SELECT in ClickHouse SQL over all sealed dates. Rows have their values in the order of the columns; left_out says if rows are missing at the end; basis has the dates behind the answer, and the gaps.',
      inputSchema: z.strictObject({
        sql: z.string().min(1),
        max_rows: z.number().int().min(1).max(MAX_TABLE_ROWS).default(DEFAULT_ROWS),
      }),
      annotations,
    },
    ({ sql, max_rows: maxRows }, { signal }) =>
      answer(signal, (asked, bounded) => answerQuery(asked, sql, maxRows, bounded)),
  );
  server.registerTool(
    'describe',
    {
      description:
        'Lists tables, formulas, and all dates with their gaps; of one table the columns and their meanings; of one formula its text.',
      inputSchema: z.strictObject({ table: z.string().optional(), formula: z.string().optional() }),
      annotations,
    },
    (topic, { signal }) => answer(signal, (asked, bounded) => answerDescribe(asked, topic, docsDir, bounded)),
  );
  server.registerTool(
    'report',
    {
      description:
        'The numbers of a mailed flow report, each with its definition and those of earlier sessions, and the levels of its symbols, whose formulas `describe` has. Default: the newest date.',
      inputSchema: z.strictObject({
        job: z.string().optional().describe('default: the only one with reports'),
        date: z.iso.date().optional(),
        report: z.string().optional().describe('id, where a job mails several'),
        revision: z.number().int().optional(),
      }),
      annotations,
    },
    (chosen, { signal }) =>
      answer(signal, async (asked) => answerReport(asked, chosen, await cli.openers.openLog({ quiet: true }))),
  );
  const close = async () => {
    await server.close();
    await (await opening?.catch(() => undefined))?.close();
  };
  return { server, close };
}

function createTimeout(seconds: number): Fault {
  return new Fault('QUERY_TIMEOUT', `the query was ended after ${countOf(seconds, 'second')}`, {
    kind: 'usage',
    hint: 'Query fewer dates, symbols or columns: a condition on date skips files. Or start `flowdrop mcp --timeout SECONDS` with more.',
  });
}
