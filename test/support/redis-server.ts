/** A real Redis for the tests: Debian's, which `redis-start.sh` runs. */
import type { ServerStart } from './external.ts';
import { findFreePort, findObstacle, killServer, launchServer, readGreeting, startServer } from './server-process.ts';

export interface RedisServer {
  readonly port: number;
  /** With the password. */
  readonly url: string;
  readonly password: string;
  /** Ends it by SIGKILL; whatever it knew is lost, unless it keeps it. */
  kill(): Promise<void>;
  /** Starts it again at the same address, empty unless it kept what it knew. */
  revive(): Promise<void>;
  stop(): Promise<void>;
}

/** @param isKept whether it writes what it knows to its disk (`appendonly`), as a server that daemons share should */
export async function startRedis({ isKept = false } = {}): Promise<ServerStart<RedisServer>> {
  const obstacle = await findObstacle('redis-start.sh', '/usr/bin/redis-server', 'redis-server');
  return await startServer('a Redis server', obstacle, async (folder) => {
    const port = await findFreePort();
    const password = 'redis-secret-4711';
    const args = [folder, String(port), password, isKept ? 'yes' : 'no'];
    // Without the password it says that it needs one.
    const isReady = async () => /^(\+PONG|-NOAUTH)/.test(await readGreeting(port, 'PING\r\n'));
    const start = async () => await launchServer('redis-start.sh', args, isReady);
    let child = await start();
    const kill = () => killServer(child);
    return {
      ...{ port, url: `redis://:${password}@127.0.0.1:${port}`, password, kill, stop: kill },
      async revive() {
        child = await start();
      },
    };
  });
}
