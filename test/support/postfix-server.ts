/**
 * A real mail server for the tests: Debian's postfix, which `postfix-start.sh` installs (as root on Debian) and runs. Each
 * test file has one of its own, in a temporary folder, on loopback, and stops it. Invariant: in CI there is no way without
 * one. What it accepts and refuses is said in the script.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findFreePort, findObstacle, hasEnded, killServer } from './server-process.ts';

/** A delivered mail as Python's `email` reads it. */
export interface DeliveredMail {
  /** Address that it was delivered for. */
  readonly recipient: string;
  /** In the order they came; a name may come twice. */
  readonly headers: readonly (readonly [string, string])[];
  readonly parts: readonly DeliveredPart[];
  /** What the parser found wrong with it. */
  readonly defects: readonly string[];
}

/** A part that is no container, in the order of the message. */
export interface DeliveredPart {
  readonly type: string;
  readonly cid: string | null;
  readonly disposition: string | null;
  readonly filename: string | null;
  /** Text, or hexadecimal digits of anything else. */
  readonly content: string;
}

export interface PostfixServer {
  readonly port: number;
  /** The authority that signed its certificate. */
  readonly caFile: string;
  /** Waits until so many mails are in the mailbox, and gives all there are. */
  mails(count: number): Promise<readonly DeliveredMail[]>;
  /** What it logged. */
  log(): Promise<string>;
  stop(): Promise<void>;
}

const SCRIPT = fileURLToPath(new URL('postfix-start.sh', import.meta.url));
/** Installing takes the most of it. */
const START_TIMEOUT_MS = 240_000;
/** From the answer to DATA to the file in the mailbox. */
const DELIVERY_TIMEOUT_MS = 20_000;
/** Between two looks. */
const POLL_MS = 50;

const READER = `
import sys, os, json, email, email.policy
def read(path):
    message = email.message_from_bytes(open(path, 'rb').read(), policy=email.policy.default)
    parts = []
    for part in message.walk():
        if part.is_multipart(): continue
        content = part.get_content()
        parts.append({'type': part.get_content_type(), 'cid': part['Content-ID'], 'disposition': part.get_content_disposition(),
                      'filename': part.get_filename(), 'content': content if isinstance(content, str) else content.hex()})
    return {'recipient': message['X-Original-To'], 'headers': [[k, str(v)] for k, v in message.items()], 'parts': parts,
            'defects': [str(d) for p in message.walk() for d in p.defects]}
folder = sys.argv[1]
names = sorted(os.listdir(folder), key=lambda name: os.stat(os.path.join(folder, name)).st_mtime_ns) if os.path.isdir(folder) else []
print(json.dumps([read(os.path.join(folder, name)) for name in names]))
`;

import { type ServerStart, startExternal } from './external.ts';

/** @throws when `CI` is set and there is no server: CI skips nothing */
export async function startPostfix(): Promise<ServerStart<PostfixServer>> {
  return await startExternal('postfix', findOrStart);
}

async function findOrStart(): Promise<ServerStart<PostfixServer>> {
  const reason = await findObstacle('postfix-start.sh', '/usr/sbin/postfix', 'postfix');
  if (reason !== undefined) return { server: undefined, reason };
  if (process.getuid?.() !== 0) return { server: undefined, reason: "postfix's master runs as root" };
  if (spawnSync('python3', ['--version']).status !== 0) return { server: undefined, reason: 'there is no python3' };
  const folder = await mkdtemp(join(tmpdir(), 'flowdrop-test-postfix-'));
  try {
    return { server: await launch(folder, await findFreePort()), reason: undefined };
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    return { server: undefined, reason: String(error) };
  }
}

async function launch(folder: string, port: number): Promise<PostfixServer> {
  const child = spawn(SCRIPT, [folder, String(port)], { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', (data: Buffer) => {
    said += data.toString();
  });
  await untilReady(child, port).catch(async (error: unknown) => {
    await killServer(child);
    throw new Error(`postfix-start.sh failed: ${String(error)}: ${said.trim()}`);
  });
  const read = () => readMailbox(join(folder, 'mail', 'inbox', 'new'));
  return {
    port,
    caFile: join(folder, 'ca.pem'),
    async mails(count) {
      let found = read();
      const end = performance.now() + DELIVERY_TIMEOUT_MS;
      while (found.length < count && performance.now() < end) {
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
        found = read();
      }
      return found;
    },
    log: () => readFile(join(folder, 'log', 'mail.log'), 'utf8'),
    async stop() {
      await killServer(child);
      // Its children end when they find that it has gone; a queue file may still be written until then.
      await rm(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

function readMailbox(folder: string): readonly DeliveredMail[] {
  const { stdout, stderr, status } = spawnSync('python3', ['-c', READER, folder], {
    encoding: 'utf8',
    maxBuffer: 100_000_000,
  });
  if (status !== 0) throw new Error(`the mailbox cannot be read: ${stderr}`);
  return JSON.parse(stdout) as readonly DeliveredMail[];
}

async function untilReady(child: ChildProcess, port: number): Promise<void> {
  const end = performance.now() + START_TIMEOUT_MS;
  while (performance.now() < end) {
    if (hasEnded(child)) throw new Error('it has ended');
    if (await greets(port)) return;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  throw new Error('it does not answer');
}

async function greets(port: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const socket = createConnection(port, '127.0.0.1');
    socket.once('data', (data: Buffer) => {
      socket.end('QUIT\r\n');
      resolve(data.toString().startsWith('220 '));
    });
    socket.once('error', () => resolve(false));
    socket.once('close', () => resolve(false));
  });
}
