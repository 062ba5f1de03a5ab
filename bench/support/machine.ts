/** The machine that the numbers come from: without it they mean nothing. */
import { readFileSync } from 'node:fs';
import { availableParallelism, cpus, loadavg, platform, totalmem } from 'node:os';
import { join } from 'node:path';
import { formatBytes } from '../../src/core/units.ts';
import { REPO } from '../../test/support/flowdrop.ts';

const PACKAGES = ['chdb', '@duckdb/node-api', 'hyparquet-writer', 'parquetjs-lite'] as const;

export function describeMachine(): string {
  const packages = PACKAGES.map((name) => `${name} ${readVersion(name)}`).join(', ');
  const [load = 0] = loadavg();
  return [
    `Machine: ${availableParallelism()} cores (${cpus()[0]?.model ?? 'unknown'}), ${formatBytes(totalmem())} memory, ${platform()}, load ${load.toFixed(1)} at the start`,
    `Node ${process.versions.node}, ${packages}`,
  ].join('\n');
}

function readVersion(name: string): string {
  const path = join(REPO, 'node_modules', name, 'package.json');
  return (JSON.parse(readFileSync(path, 'utf8')) as { version: string }).version;
}
