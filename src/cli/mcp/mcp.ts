/**
 * `flowdrop mcp`: tools for an assistant over the sealed drops, by the Model Context Protocol on stdin and stdout, until the
 * client closes stdin. Invariants: stdout has only messages of the protocol; a tool only reads; what goes wrong is an answer
 * to the assistant, in the words of the command line.
 */
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { type Call, type Cli, usage } from '../context.ts';
import { type AskedStore, type AskingCli, openAskedStore } from '../query/asked-store.ts';
import { answerQuery, QUERY_INPUT, QUERY_OUTPUT } from './answer-query.ts';

/** Clients give a tool 60 seconds by default; the answer must come before. */
const DEFAULT_TIMEOUT_SECONDS = 45;
const MAX_TIMEOUT_SECONDS = 3_600;
/** Assistants call tools side by side; the statements run one after another. */
const MAX_WAITING = 16;

const READ_ONLY = { readOnlyHint: true, openWorldHint: false };
const INSTRUCTIONS =
  "Sealed U.S. option trades and their mailed reports. Call `describe` first. SQL is ClickHouse's; conditions on `date` make it fast. Say which dates an answer rests on, and name its gaps.";

export async function mcp(cli: Cli, { options }: Call<'mcp'>) {
  const { terminal, signal } = cli;
  const { server, close } = createToolServer(cli, options);
  // As `main.ts` gives them, they are those of the process.
  const [input, output] = [terminal.stdin as Readable, terminal.stdout as Writable];
  try {
    const isOver = Promise.race([once(input, 'end', { signal }), once(input, 'close', { signal })]);
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
  const { timeout = DEFAULT_TIMEOUT_SECONDS } = options;
  if (!(timeout > 0 && timeout <= MAX_TIMEOUT_SECONDS))
    throw usage(
      `--timeout is ${timeout}; allowed are up to ${MAX_TIMEOUT_SECONDS} seconds`,
      'flowdrop mcp --timeout 45',
    );
  let opening: Promise<AskedStore> | undefined;
  const open = async () => {
    opening ??= openAskedStore(cli, options, MAX_WAITING);
    // The next call tries again: the store may be reachable then.
    opening.catch(() => {
      opening = undefined;
    });
    return await opening;
  };
  const answer = async (find: (asked: AskedStore) => Promise<Record<string, unknown>>) => {
    try {
      const structuredContent = await find(await open());
      // Also as text, for clients that know no structured content.
      return { content: [{ type: 'text' as const, text: JSON.stringify(structuredContent) }], structuredContent };
    } catch (error) {
      return { content: [{ type: 'text' as const, text: cli.describe(error).text }], isError: true };
    }
  };
  const { version } = cli.openers;
  const server = new McpServer({ name: 'flowdrop', title: 'flowdrop', version }, { instructions: INSTRUCTIONS });
  server.registerTool(
    'query',
    {
      title: 'Query the drops',
      description: 'Runs one SELECT (or SHOW TABLES, DESCRIBE TABLE) in ClickHouse SQL over all sealed dates.',
      inputSchema: QUERY_INPUT,
      outputSchema: QUERY_OUTPUT,
      annotations: READ_ONLY,
    },
    (input, { signal }) => answer((asked) => answerQuery(asked, input, { timeoutSeconds: timeout, signal })),
  );
  const close = async () => {
    await server.close();
    await (await opening?.catch(() => undefined))?.close();
  };
  return { server, close };
}
