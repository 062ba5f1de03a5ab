/** A real mail server for the tests: Debian's postfix. What it accepts and refuses is said in `postfix-start.sh`. */
import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ServerStart } from './external.ts';
import { findFreePort, findObstacle, killServer, launchServer, readGreeting, startServer } from './server-process.ts';

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

/** @throws when `CI` is set and there is no server: CI skips nothing */
export async function startPostfix(): Promise<ServerStart<PostfixServer>> {
  return await startServer('postfix', await findPostfixObstacle(), async (folder) => {
    const port = await findFreePort();
    const isReady = async () => (await readGreeting(port)).startsWith('220 ');
    const child = await launchServer('postfix-start.sh', [folder, String(port)], isReady);
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
      stop: () => killServer(child),
    };
  });
}

async function findPostfixObstacle(): Promise<string | undefined> {
  const obstacle = await findObstacle('postfix-start.sh', '/usr/sbin/postfix', 'postfix');
  if (obstacle !== undefined) return obstacle;
  if (process.getuid?.() !== 0) return "postfix's master runs as root";
  return spawnSync('python3', ['--version']).status === 0 ? undefined : 'there is no python3';
}

function readMailbox(folder: string): readonly DeliveredMail[] {
  const { stdout, stderr, status } = spawnSync('python3', ['-c', READER, folder], {
    encoding: 'utf8',
    maxBuffer: 100_000_000,
  });
  if (status !== 0) throw new Error(`the mailbox cannot be read: ${stderr}`);
  return JSON.parse(stdout) as readonly DeliveredMail[];
}
