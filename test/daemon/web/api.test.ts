/** The JSON API and the pages drawn from it. What acts is in `actions.test.ts`, its looks in `browser.slow.test.ts`. */
import { appendFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RunHistory } from '../../../src/state/run-history.ts';
import type { RunWindow } from '../../../src/state/run-record.ts';
import { useCleanups } from '../../support/cleanups.ts';
import { HOSTILE, makeBadDay, makeHostileDay, makeRun, NOW, usePage } from './views.ts';

const JOB = 'nightly-trades';

const { url, call, ...page } = usePage();
const { folder: makeFolder } = useCleanups(afterEach);
let folder: string;
let history: RunHistory;
beforeEach(async () => {
  folder = await makeFolder();
  history = new RunHistory(folder, JOB);
  for (const name of ['runs', 'logs', 'stage-runs', 'stage-logs']) {
    await mkdir(join(folder, JOB, name), { recursive: true });
  }
});

const start = (view = makeBadDay()) => page.start({ view: () => view, stateDir: folder });
async function read(path: string): Promise<{ readonly status: number; readonly body: unknown }> {
  const { status, body } = await call(path);
  return { status, body: JSON.parse(body) };
}

interface Described {
  readonly paths: Readonly<Record<string, { readonly get: Operation }>>;
}

interface Operation {
  readonly responses: Readonly<
    Record<string, { readonly content: Readonly<Record<string, { readonly schema: object }>> }>
  >;
}

const makeWindow = (index: number): RunWindow => ({
  at: new Date(NOW - 40_000_000 + index * 1_000).toISOString(),
  kind: index % 40 === 3 ? 'split' : 'page',
  date: '2026-11-20',
  window: `window ${index}`,
  ...{ rows: 9_000, requests: index, retries: index % 7, rate_limited: 0, splits: 0 },
});

describe('the JSON API', () => {
  it('answers at each address what its OpenAPI document says, and the document is valid', async () => {
    const run = makeRun(JOB, 19.5, { outcome: 'failed', error: { code: 'API_DOWN', message: 'away' } });
    await history.write(run);
    await history.appendWindows(run, [makeWindow(0), makeWindow(1)]);
    const line = '{"level":30,"time":"2026-11-20T23:00:00Z","event":"page","msg":"fetched"}';
    await writeFile(history.files(run).log, `${line}\nplain\n`);
    await start();
    const described = (await read('/api/openapi.json')).body as Described;
    expect(await new Validator().validate(JSON.parse(JSON.stringify(described)))).toMatchObject({ valid: true });
    const ajv = new Ajv2020({ strict: false, validateFormats: false });
    const filled: Readonly<Record<string, string>> = { job: JOB, run: run.id, date: '2026-11-20' };
    for (const [path, { get }] of Object.entries(described.paths)) {
      const address = path.replace(/\{(\w+)\}/g, (_, name: string) => filled[name] ?? '');
      const { status, body } = await read(address);
      const schema = get.responses[status]?.content['application/json']?.schema;
      expect([status, schema !== undefined], address).toEqual([200, true]);
      const validate = ajv.compile(closed(schema ?? {}));
      expect(validate(body), `${address}: ${JSON.stringify(validate.errors)}`).toBe(true);
      const nobody = address.replace(JOB, 'nobody').replace(/^(\/api\/(jobs|runs|reports|actions))$/, '$1x');
      const error = expect.objectContaining({ code: 'NOT_FOUND' });
      expect(await read(nobody), address).toEqual({ status: 404, body: { error } });
    }
  });

  it('has the runs by job, command, outcome and page, and refuses what it does not know', async () => {
    for (let index = 0; index < 1_000; index += 1) {
      const run = makeRun(JOB, index / 10, { command: index % 100 === 0 ? 'backfill' : 'run' });
      await writeFile(history.files(run).entry, JSON.stringify(run));
    }
    await start();
    const first = (await read('/api/runs?limit=400')).body as { runs: { id: string }[]; next: string };
    const second = (await read(`/api/runs?limit=500&before=${first.next}`)).body as typeof first;
    const third = (await read(`/api/runs?limit=500&before=${second.next}`)).body as typeof first;
    const ids = [first, second, third].flatMap(({ runs }) => runs.map(({ id }) => id));
    expect([ids.length, new Set(ids).size, third.next]).toEqual([1_000, 1_000, null]);
    const backfills = (await read('/api/runs?command=backfill')).body as typeof first;
    expect(backfills.runs).toHaveLength(10);
    expect(((await read('/api/runs?job=spx-chain')).body as typeof first).runs).toEqual([]);
    for (const query of ['limit=0', 'limit=501', 'limit=x', 'command=rm', 'outcome=fine']) {
      expect((await read(`/api/runs?${query}`)).status, query).toBe(400);
    }
    const list = await call('/runs');
    expect(list.status).toBe(200);
    expect(list.body).toContain('>Older</a>');
  });

  it.each(['..', '%2e%2e', '..%2f..%2fetc%2fpasswd', '%00', '20261120T230000Z-..%2f..%2fx', '%', '%ff'])(
    'reads nothing for the name %s',
    async (name) => {
      await start();
      const ofRuns = [`/runs/${JOB}/${name}`, `/runs/${name}/${name}`, `/runs/${JOB}/${name}/log`];
      for (const path of [...ofRuns, `/jobs/${name}`]) {
        for (const address of [path, `/api${path}`]) expect((await call(address)).status, address).toBe(404);
      }
    },
  );
});

describe('the page of a run', () => {
  it('shows the end of a log of 100 MB, finds in it, and sends all of it to who wants it', async () => {
    const run = makeRun(JOB, 1);
    await history.write(run);
    const line = `${JSON.stringify({ level: 30, time: '2026-11-23T18:00:00Z', msg: 'x'.repeat(960) })}\n`;
    const block = line.repeat(1_000);
    for (let mb = 0; mb < 100; mb += 1) await appendFile(history.files(run).log, block);
    const last = '{"level":50,"time":"2026-11-23T18:01:00Z","event":"failed","msg":"a needle"}\n';
    await appendFile(history.files(run).log, last);
    await start();
    const whole = await call(`/runs/${JOB}/${run.id}`);
    expect([whole.status, whole.body.includes('a needle'), whole.body.length < 1_000_000]).toEqual([200, true, true]);
    expect(whole.body).toContain('Only the last lines are shown');
    const found = await call(`/runs/${JOB}/${run.id}?level=warn&text=NEEDLE`);
    expect(found.body.match(/<li class="level-/g)).toHaveLength(1);
    const answer = await fetch(`${url()}/runs/${JOB}/${run.id}/log`);
    let size = 0;
    for await (const chunk of answer.body ?? []) size += chunk.length;
    expect(size).toBeGreaterThan(95_000_000);
    expect(answer.headers.get('content-disposition')).toBe(`attachment; filename="${run.id}.log"`);
  });

  it('draws 20,000 windows in a bounded page, and one that is killed in the middle of a line', async () => {
    const run = makeRun(JOB, 11.2, { finished_at: null, outcome: null });
    await history.write(run);
    const windows = Array.from({ length: 20_000 }, (_, index) => makeWindow(index));
    await history.appendWindows(run, windows);
    await appendFile(history.files(run).windows, '{"at":');
    await start();
    const { status, body } = await call(`/runs/${JOB}/${run.id}`);
    expect([status, body.length < 300_000]).toEqual([200, true]);
    // Its process is none of ours.
    expect(body).toContain('<span class="badge bad">died</span>');
  });

  it('shows texts that mean harm as texts', async () => {
    const entry = makeRun(JOB, 2, {
      args: [HOSTILE],
      outcome: 'failed',
      error: { code: HOSTILE, message: HOSTILE, hint: HOSTILE },
      dates: [{ date: HOSTILE, status: HOSTILE, rows: 1, requests: 1, error: { code: HOSTILE, message: HOSTILE } }],
      reports: [{ report: HOSTILE, date: HOSTILE, sent: 1, written: 1, unsent: 1 }],
    });
    await history.write(entry);
    await history.appendWindows(entry, [{ ...makeWindow(3), date: HOSTILE, window: HOSTILE, reason: HOSTILE }]);
    const line = JSON.stringify({ level: 30, event: HOSTILE, msg: HOSTILE, [HOSTILE]: HOSTILE });
    await writeFile(history.files(entry).log, `${line}\n${HOSTILE}\n`);
    await start({ ...makeHostileDay(), jobs: [...makeHostileDay().jobs, ...makeBadDay().jobs] });
    for (const path of [`/runs/${JOB}/${entry.id}?text=${encodeURIComponent(HOSTILE)}`, '/runs', '/', '/reports']) {
      const { status, body } = await call(path);
      expect([path, status, body.includes('<img'), body.match(/<script/g)?.length]).toEqual([path, 200, false, 1]);
    }
  });
});

/** Says of each object that it has no more fields than those named: what the document forgets is found. */
function closed(schema: object): object {
  return JSON.parse(JSON.stringify(schema), (_, value) =>
    value?.type === 'object' && value.properties ? { additionalProperties: false, ...value } : value,
  ) as object;
}
