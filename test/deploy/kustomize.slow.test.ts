/** The Kustomize bases and the component, built by Kustomize itself. `manifests.test.ts` holds what is in them. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { expect, it } from 'vitest';
import { makeFolder, REPO } from '../support/flowdrop.ts';
import { parseObjects, podOf, readBase } from './kubernetes.ts';

const TOOLS = [
  ['kustomize', 'build'],
  ['kubectl', 'kustomize'],
] as const;
const tool = TOOLS.find(([command, word]) => spawnSync(command, [word, '--help']).status === 0);
if (tool === undefined) console.warn('SKIPPED: neither kustomize nor kubectl, so the bases are not built');

// Skipped on machines without either; GitHub's have kubectl.
it.skipIf(tool === undefined).each(['daemon', 'cronjob', 'service'])(
  'the overlay of deploy/README.md can be built, over the base %s',
  async (base) => {
    const { path, remove } = await makeFolder();
    try {
      const page = readFileSync(join(REPO, 'deploy', 'README.md'), 'utf8');
      const overlay = /```yaml kustomization\n([\s\S]*?)```/.exec(page)?.[1] ?? '';
      expect(overlay).toContain('flowdrop/deploy/kubernetes/daemon');
      mkdirSync(join(path, 'jobs'));
      const job = readFileSync(join(REPO, 'jobs', 'nightly-trades.yaml'), 'utf8');
      writeFileSync(join(path, 'jobs', 'nightly-trades.yaml'), job);
      writeFileSync(
        join(path, 'kustomization.yaml'),
        overlay
          .replace('kubernetes/daemon', `kubernetes/${base}`)
          .replaceAll('flowdrop/deploy', relative(realpathSync(path), join(REPO, 'deploy'))),
      );
      const [command = '', ...words] = tool ?? [];
      const build = () => parseObjects(execFileSync(command, [...words, path], { encoding: 'utf8' }));
      const built = build();
      const name = ({ kind, metadata }: { kind: string; metadata: { name: string } }) => `${kind}/${metadata.name}`;
      const bases = [base, 'monitoring', 'alert-rules'].flatMap((one) => readBase(one));
      // Its name changes with its content, which restarts the daemon.
      expect(built.map((one) => name(one).replace(/(-settings)-[a-z0-9]{10}$/, '$1')).sort()).toEqual(
        bases.map(name).sort(),
      );
      expect(built.find(({ metadata }) => metadata.name === 'flowdrop-jobs')?.data).toEqual({
        'nightly-trades.yaml': job,
      });
      expect(JSON.stringify(built)).not.toMatch(/your-|us-east-1/);
      const text = readFileSync(join(path, 'kustomization.yaml'), 'utf8');
      writeFileSync(join(path, 'kustomization.yaml'), text.replace('eu-west-1', 'eu-west-2'));
      const pods = (all: typeof built) => JSON.stringify(all.filter((one) => podOf(one) !== undefined));
      if (base === 'service') expect(pods(build())).toBe(pods(built));
      else expect(pods(build())).not.toBe(pods(built));
      expect(JSON.stringify(built)).toContain('"image":"registry.example/flowdrop:');
      expect(JSON.stringify(built)).toContain('"FLOWDROP_API_URL":"https://api.example"');
    } finally {
      await remove();
    }
  },
);
