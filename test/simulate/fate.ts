/**
 * What becomes of one simulated run: every touch of something outside it (a request, an operation of the store, a statement
 * of the engine, a mail) is a step, and a step may be the one at which the run is stopped, dies, or meets a fault.
 * Invariant: a run that is dead touches nothing any more; what it waits for never comes, as in a process that was killed.
 */
import { setMaxListeners } from 'node:events';
import type { Engine, StatementOptions } from '../../src/engine/engine.ts';
import type { Mailer } from '../../src/mail/message.ts';
import type { Source } from '../../src/source/source.ts';
import type { Store } from '../../src/store/store.ts';
import { faultStore, loseAnswer, refuse } from '../support/fault-store.ts';

export type StoreTrouble =
  /** Fails, and nothing was done. */
  | 'store-refuses'
  /** Is done, and fails all the same. */
  | 'store-lost-answer'
  /** From then on every write fails. */
  | 'store-full'
  /** From then on everything fails. */
  | 'store-away';

export interface Trouble {
  readonly stopAt?: number | undefined;
  /** @param after whether the step is still done */
  readonly deathAt?: { readonly step: number; readonly after: boolean } | undefined;
  readonly store?: { readonly operation: number; readonly how: StoreTrouble } | undefined;
}

type Kind = 'request' | 'store' | 'engine' | 'mail';

export class Fate {
  readonly #trouble: Trouble;
  readonly #stop = new AbortController();
  readonly #faults: string[] = [];
  #steps = 0;
  #operations = 0;
  #isDead = false;
  #die: () => void = () => undefined;
  /** Resolves when the run dies. */
  readonly death: Promise<'dead'>;

  constructor(trouble: Trouble) {
    this.#trouble = trouble;
    // Everything that a run waits for listens.
    setMaxListeners(0, this.#stop.signal);
    this.death = new Promise((resolve) => {
      this.#die = () => resolve('dead');
    });
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  get steps(): number {
    return this.#steps;
  }

  /** What was done to the run. */
  get faults(): readonly string[] {
    return this.#faults;
  }

  async step<T>(kind: Kind, act: () => Promise<T>): Promise<T> {
    if (this.#isDead) return await never();
    this.#steps += 1;
    const { stopAt, deathAt } = this.#trouble;
    if (stopAt === this.#steps) {
      this.#faults.push(`stopped (${kind})`);
      this.#stop.abort();
    }
    const dies = deathAt?.step === this.#steps;
    if (dies && !deathAt.after) await this.#end(kind);
    const result = await act().catch(async (error: unknown) => {
      if (this.#isDead || dies) await this.#end(kind);
      throw error;
    });
    if (dies) await this.#end(kind);
    return this.#isDead ? await never() : result;
  }

  /** A run that is over does nothing any more. */
  close(): void {
    this.#isDead = true;
  }

  async #end(kind: Kind): Promise<never> {
    if (!this.#isDead) this.#faults.push(`died (${kind})`);
    this.#isDead = true;
    this.#die();
    return await never();
  }

  source(source: Source): Source {
    return { ...source, ask: (sql, options) => this.step('request', () => source.ask(sql, options)) };
  }

  /** The engine of all lives, which stays open when a run closes it. */
  engine(engine: Engine): Engine {
    const { signal } = this;
    const bound = (options: StatementOptions = {}) => ({
      ...options,
      signal: options.signal === undefined ? signal : AbortSignal.any([signal, options.signal]),
    });
    return {
      folder: engine.folder,
      command: (sql, options) => this.step('engine', () => engine.command(sql, bound(options))),
      rows: (sql, options) => this.step('engine', () => engine.rows(sql, bound(options))),
      format: (sql, format, options) => this.step('engine', () => engine.format(sql, format, bound(options))),
      close: async () => {},
    };
  }

  mailer(mailer: Mailer): Mailer {
    return { ...mailer, send: (message, options) => this.step('mail', () => mailer.send(message, options)) };
  }

  store(store: Store): Store {
    return faultStore(
      store,
      () => (act, call) =>
        this.step('store', async () => {
          this.#operations += 1;
          const { operation = Number.POSITIVE_INFINITY, how } = this.#trouble.store ?? {};
          const number = this.#operations;
          const isLasting = how === 'store-away' || (how === 'store-full' && call.isWrite);
          const isHit = isLasting ? number >= operation : number === operation && how !== 'store-full';
          if (how === undefined || !isHit) return await act();
          this.#faults.push(how);
          return await (how === 'store-lost-answer' ? loseAnswer : refuse)(act, call);
        }),
    );
  }
}

function never(): Promise<never> {
  return new Promise(() => {});
}
