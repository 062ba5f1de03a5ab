/**
 * The check `baseline` in whole runs: generated sessions with an expiration Friday and a half day raise nothing; a file
 * that ends early for one symbol is sealed, and manifest, status, mail and alert say so.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import { describe, expect, it } from 'vitest';
import { formatSecond } from '../../src/calendar/wall-clock.ts';
import { writeTradeFile } from '../service/trade-file.ts';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop, readManifest, startService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';

const { cleanups, folder, keep } = useCleanups();
const CHECKS = 'checks:\n  - check: baseline\n';

const readCheck = async (cwd: string, date: string) => (await readManifest(join(cwd, 'drops'), date)).checks[0];

describe('a baseline', () => {
  it('raises nothing in generated sessions, on an expiration Friday and on a half day', async () => {
    const cwd = await folder();
    const session = ['--generate', '9', '--generate-rows', '8000', '--as-of', '2026-11-28T14:00:00Z'];
    const service = await keep(startService(session));
    const job = await writeJob(cwd, { schedule: CHECKS, reports: '' });
    const ran = await flowdrop(['run', job], { cwd, env: service.env });
    expect(ran.stderr).not.toContain('check baseline');
    for (const date of ['2026-11-20', '2026-11-25', '2026-11-27']) {
      const check = await readCheck(cwd, date);
      expect(check, date).toMatchObject({ passed: true, findings: [] });
      expect(check?.sessions?.length, date).toBeGreaterThanOrEqual(3);
    }
  });

  it('finds the symbol whose file ends early, and says so wherever people look', async () => {
    const cwd = await folder();
    const dates = ['2026-11-16', '2026-11-17', '2026-11-18', '2026-11-19'];
    const rows = dates.flatMap((date) =>
      // Every 40 seconds until 16:15, SPY and QQQ in turn; on the last day SPY has nothing after 15:32.
      Array.from({ length: 4 * 608 }, (_, index) => {
        const time = `${date} ${formatSecond(34_200 + Math.floor(index / 4) * 40)}`;
        const symbol = index % 2 === 0 ? 'SPY' : 'QQQ';
        return { id: `${date}-${index}`, time, symbol, expiration_date: '2026-12-18' };
      }).filter(({ symbol, time }) => date !== '2026-11-19' || symbol !== 'SPY' || time.slice(11) < '15:32'),
    );
    const file = await writeTradeFile(rows);
    cleanups.push(() => file.remove());
    const service = await keep(startService(['--data', file.path, '--as-of', '2026-11-20T01:00:00Z']));
    const job = await writeJob(cwd, {
      schedule: `${CHECKS}alerts:\n  to: [ops@example.com]\n`,
      reports: 'reports:\n  - template: flow\n    to: [desk@example.com]',
    });
    const env = { ...service.env, FLOWDROP_MAIL_FROM: 'flowdrop@example.com' };
    const ran = await flowdrop(['run', job], { cwd, env });
    const says = "SPY's last trade 15:31, 44 minutes before the close";
    expect(ran.stderr).toContain(says);

    expect(await readCheck(cwd, '2026-11-18')).toMatchObject({ passed: true, sessions: ['2026-11-17', '2026-11-16'] });
    const found = { sessions: ['2026-11-18', '2026-11-17', '2026-11-16'], findings: [{ says }] };
    expect(await readCheck(cwd, '2026-11-19')).toMatchObject(found);

    const status = await flowdrop(['status', job], { cwd, env });
    expect(status.stdout).toContain(`2026-11-19 is unusual: ${says}`);

    const outbox = join(cwd, 'out', 'mail');
    const mails = await Promise.all(
      (await readdir(outbox))
        .filter((name) => name.endsWith('.eml'))
        .map(async (name) => await PostalMime.parse(await readFile(join(outbox, name)))),
    );
    const report = mails.find(({ to }) => to?.some(({ address }) => address === 'desk@example.com'));
    expect(report?.text).toContain(`Complete at the source, but unlike other days: ${says}.`);
    const alert = mails.find(({ to }) => to?.some(({ address }) => address === 'ops@example.com'));
    expect(alert?.text).toContain('2026-11-19 is sealed, but a check failed');

    await flowdrop(['verify', job], { cwd, env, code: 0 });
  });
});
