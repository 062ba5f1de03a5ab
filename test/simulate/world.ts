/**
 * What all simulated lives of a process share: one engine that is the source's table and the stage, the API in front of it
 * with a fault proxy, and a mail server. A run of a life is `runJob` with real parts: HTTP client, directory store, SMTP.
 * Invariant: the only clock is the life's, and nobody waits.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HISTORICAL_PATH, PORTAL_PATH } from '../../src/api-contract/published-limits.ts';
import type { CalendarOverride } from '../../src/calendar/session.ts';
import { RENEWAL_MS } from '../../src/deliver/receipt.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { type FinishedRun, runJob, stageJob } from '../../src/export/run-job.ts';
import type { StagedAhead } from '../../src/export/trades/ahead.ts';
import type { SqlJob } from '../../src/job/job.ts';
import { openSmtpMailer } from '../../src/mail/smtp.ts';
import { createOpeners } from '../../src/openers.ts';
import type { RunEnv } from '../../src/run/run.ts';
import { createHistoricalSource } from '../../src/source/historical.ts';
import { discardStages, listStages } from '../../src/stage/stage-table.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { holdStore } from '../../src/store/identity.ts';
import { isPage } from '../chaos/api.ts';
import { type Front, startFront } from '../chaos/front.ts';
import { type MailFault, type MailServer, startMailServer } from '../chaos/mail.ts';
import { createFakeClock, type FakeClock } from '../support/fake-clock.ts';
import type { Fault } from '../support/fault-plan.ts';
import { describeFault, type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts';
import { KEY, REPO } from '../support/flowdrop.ts';
import { createKeptLog } from '../support/log.ts';
import { createPacer } from '../support/pacer.ts';
import { makePlainTemplates } from '../support/plain-templates.ts';
import { Fate, type Trouble } from './fate.ts';
import { LifeTable } from './table.ts';

/** To compile what runs a few times on a few rows takes longer than to run it. */
const UNCOMPILED = { compile_expressions: 0, compile_aggregate_expressions: 0, compile_sort_description: 0 };
/** How often a run's progress is written: `state/progress.ts`. */
const PROGRESS_MS = 1_000;
const REQUESTS_PER_SECOND = 1;
/** The shortest wait of `deliver/deliver-date.ts` and some more: nobody waits really. */
const PATIENCE_MS = 60_000;
/** Nobody listens there. */
const NO_SERVER = 'smtp://127.0.0.1:9';

/** Trouble of a run, and of what it talks to. */
export interface RunTrouble extends Trouble {
  /** The fault of the n-th request of the run. */
  readonly api?: ((request: number) => Fault | undefined) | undefined;
  /** Before the n-th request of the run is answered. */
  readonly onRequest?: ((request: number) => Promise<void>) | undefined;
  readonly mail?: ((message: number) => MailFault | undefined) | undefined;
  readonly isMailDown?: boolean | undefined;
}

export interface SimulatedRun {
  /** `undefined` if the run died. */
  readonly finished: FinishedRun | undefined;
  /** What was done to it. */
  readonly faults: readonly string[];
  /** Whether there was no trouble. */
  readonly isCalm: boolean;
  readonly steps: number;
  readonly requests: number;
  readonly startMs: number;
  readonly endMs: number;
  readonly log: readonly Readonly<Record<string, unknown>>[];
}

export class World {
  readonly table: LifeTable;
  readonly mail: MailServer;
  readonly engine: Engine;
  readonly #front: Front;
  readonly #proxy: FaultProxy;
  /** Where the lives have their folders. */
  readonly folder: string;
  /** Of its mails: who gets which counts, not how they look. */
  readonly templates: string;
  #rowLimit = 1;
  #onRequest: (() => Promise<void>) | undefined;

  private constructor(
    parts: Pick<World, 'engine' | 'table' | 'mail' | 'folder' | 'templates'> & { front: Front; proxy: FaultProxy },
  ) {
    this.engine = parts.engine;
    this.table = parts.table;
    this.#front = parts.front;
    this.#proxy = parts.proxy;
    this.mail = parts.mail;
    this.folder = parts.folder;
    this.templates = parts.templates;
  }

  static async open(): Promise<World> {
    const engine = await openEmbeddedEngine({ settings: { max_threads: 1, ...UNCOMPILED } });
    const table = await LifeTable.create(engine);
    const front = await startFront({
      table: {
        rows: [],
        async query(sql) {
          await world.#onRequest?.();
          return await table.query(sql);
        },
      },
      get rowLimit() {
        return world.#rowLimit;
      },
      isPage,
    });
    const proxy = await startFaultProxy(front.url);
    const mail = await startMailServer();
    const folder = await mkdtemp(join(tmpdir(), 'flowdrop-simulate-'));
    const templates = await makePlainTemplates(join(folder, 'templates'));
    const world = new World({ engine, table, front, proxy, mail, folder, templates });
    return world;
  }

  async close(): Promise<void> {
    await this.#proxy.close();
    await this.#front.close();
    await this.mail.close();
    await this.engine.close();
    await rm(this.folder, { recursive: true, force: true });
  }

  /** A new life: nothing is left of the one before. */
  async begin(options: LifeOptions): Promise<Life> {
    for (const date of await listStages(this.engine)) await discardStages(this.engine, date);
    const clock = createFakeClock({ startMs: options.startMs, waiting: [PROGRESS_MS, RENEWAL_MS] });
    this.#rowLimit = options.rowLimit;
    this.#proxy.dateBy(() => new Date(clock.now()).toUTCString());
    const folder = await mkdtemp(join(this.folder, 'life-'));
    return new Life(this, { ...options, clock, folder });
  }

  /** For one run at a time. @returns requests so far */
  trouble({ api = () => undefined, onRequest, mail = () => undefined }: RunTrouble): () => readonly string[] {
    const first = this.#proxy.requests;
    const injected = this.#proxy.injected.length;
    const mailFaults = this.mail.faults.length;
    let request = 0;
    this.#onRequest =
      onRequest &&
      (async () => {
        request += 1;
        await onRequest(request);
      });
    this.#proxy.follow(({ number }) => api(number - first));
    this.mail.trouble(mail);
    return () => [
      ...this.#proxy.injected.slice(injected).map(({ fault }) => describeFault(fault)),
      ...this.mail.faults.slice(mailFaults),
    ];
  }

  get requests(): number {
    return this.#proxy.requests;
  }

  get url(): string {
    return this.#proxy.url;
  }
}

export interface LifeOptions {
  readonly startMs: number;
  readonly job: SqlJob;
  readonly rowLimit: number;
  readonly calendar: CalendarOverride;
}

export class Life {
  readonly #world: World;
  readonly #options: LifeOptions;
  readonly #clock: FakeClock;
  readonly folder: string;
  #runs = 0;

  constructor(world: World, { clock, folder, ...options }: LifeOptions & { clock: FakeClock; folder: string }) {
    this.#world = world;
    this.#options = options;
    this.#clock = clock;
    this.folder = folder;
  }

  now(): number {
    return this.#clock.now();
  }

  get storeFolder(): string {
    return join(this.folder, 'store');
  }

  /** Never backwards. */
  moveTo(ms: number): void {
    this.#clock.advance(Math.max(0, ms - this.#clock.now()));
  }

  /** @param given absent: a run without trouble */
  async run(given?: RunTrouble): Promise<SimulatedRun> {
    const trouble = given ?? {};
    const fate = new Fate(trouble);
    const { log, records } = createKeptLog();
    const startMs = this.now();
    const before = this.#world.requests;
    const listFaults = this.#world.trouble(trouble);
    this.#runs += 1;
    const opened: { close(): Promise<void> }[] = [];
    const deps = this.#createDeps(fate, log, trouble, opened);
    const running = runJob(deps, this.#options.job, { command: 'run', withReports: true });
    const ended = await Promise.race([running, fate.death]);
    fate.close();
    // What a killed process had open is closed by the system.
    if (ended === 'dead') for (const one of opened) await one.close();
    return {
      finished: ended === 'dead' ? undefined : ended,
      faults: [...fate.faults, ...listFaults(), ...(trouble.isMailDown ? ['mail server down'] : [])],
      isCalm: given === undefined,
      steps: fate.steps,
      requests: this.#world.requests - before,
      startMs,
      endMs: this.now(),
      log: records,
    };
  }

  /** Stages the running session. @returns the error if it failed */
  async stage(trouble: RunTrouble = {}): Promise<StagedAhead | Error> {
    const fate = new Fate(trouble);
    const { log } = createKeptLog();
    this.#world.trouble(trouble);
    this.#runs += 1;
    const staged = await stageJob(this.#createDeps(fate, log, trouble, []), this.#options.job).catch(
      (error: Error) => error,
    );
    fate.close();
    return staged;
  }

  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }

  #createDeps(
    fate: Fate,
    log: ReturnType<typeof createKeptLog>['log'],
    { isMailDown = false }: RunTrouble,
    opened: { close(): Promise<void> }[],
  ): RunEnv {
    const { calendar } = this.#options;
    const clock = this.#clock;
    /** Of what waits for nothing but time. */
    const hurried = { now: () => clock.now(), sleep: async (ms: number) => clock.advance(ms) };
    const stateDir = join(this.folder, 'state');
    const url = (api: string) => this.#world.url + (api === 'portal' ? PORTAL_PATH : HISTORICAL_PATH);
    const surroundings = { env: {}, cwd: this.folder, packageDir: REPO, writeErr: () => undefined };
    return {
      ...createOpeners({ ...surroundings, interactive: false, debug: false }),
      clock,
      stateDir,
      runId: `run-${this.#runs}`,
      version: '1',
      templatesDir: this.#world.templates,
      mailFrom: 'flowdrop@example.com',
      mailPatienceMs: PATIENCE_MS,
      signal: fate.signal,
      flags: [],
      openLog: async () => log,
      keepLog: () => undefined,
      sourceUrl: url,
      openEngine: async () => fate.engine(this.#world.engine),
      async openStore(_to, { use = 'look' } = {}) {
        const path = join(stateDir, '..', 'store');
        const store = fate.store(await openDirectoryStore(path));
        return await holdStore(store, { kind: 'directory', address: path, stateDir }, use, clock);
      },
      async openSource({ api }, sourceLog, clockOffsetMs) {
        return fate.source(
          createHistoricalSource(
            { url: url(api), apiKey: KEY, expectsMeta: api === 'historical', clockOffsetMs },
            { clock: hurried, pacer: createPacer(hurried, { requestsPerSecond: REQUESTS_PER_SECOND }), log: sourceLog },
          ),
        );
      },
      deliversMail: () => true,
      openMailer: async () => {
        const server = isMailDown ? NO_SERVER : String(this.#world.mail.env['FLOWDROP_SMTP_URL']);
        const mailer = openSmtpMailer({ url: server });
        opened.push(mailer);
        return fate.mailer(mailer);
      },
      readCalendar: async () => calendar,
      showProgress: () => ({ onEvent: () => undefined, stop: () => undefined }),
    };
  }
}
