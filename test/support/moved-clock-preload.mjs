/**
 * Loaded into a Node process before its own code (`--import`), this moves its clock: what `Date` shows is the real time
 * plus the milliseconds in the file that `MOVED_CLOCK_FILE` names, read at start and at each SIGUSR2. Timers move with it:
 * one that a leap forward has made due runs at once, in the order of the instants they are due at. What the platform times
 * for itself (sockets, `AbortSignal.timeout`) goes by the real clock, and so does native code.
 */
import { readFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers';
import promises from 'node:timers/promises';

const file = process.env.MOVED_CLOCK_FILE;
const real = { Date, now: Date.now, setTimeout, clearTimeout };
const readOffset = () => Number(readFileSync(file, 'utf8'));
let offsetMs = readOffset();
/** All leaps since the start: timers run by a clock that knows no date. */
let leaptMs = 0;
const elapsed = () => performance.now() + leaptMs;

real.Date.now = () => real.now() + offsetMs;
const MovedDate = new Proxy(real.Date, {
  apply: () => new real.Date(real.Date.now()).toString(),
  construct: (target, args, newTarget) => Reflect.construct(target, args.length > 0 ? args : [target.now()], newTarget),
});
real.Date.prototype.constructor = MovedDate;
globalThis.Date = MovedDate;

const waiting = new Set();

/** Stands where Node's `Timeout` stands. */
class MovedTimeout {
  #run;
  #delayMs;
  #dueMs = 0;
  #handle;
  #isRef = true;
  constructor(run, delayMs) {
    this.#run = run;
    this.#delayMs = delayMs >= 1 && delayMs < 2 ** 31 ? delayMs : 1;
    this.refresh();
  }
  get dueMs() {
    return this.#dueMs;
  }
  refresh() {
    this.#dueMs = elapsed() + this.#delayMs;
    waiting.add(this);
    return this.arm();
  }
  arm() {
    real.clearTimeout(this.#handle);
    this.#handle = real.setTimeout(
      () => {
        waiting.delete(this);
        this.#run();
      },
      Math.max(0, this.#dueMs - elapsed()),
    );
    if (!this.#isRef) this.#handle.unref();
    return this;
  }
  close() {
    waiting.delete(this);
    real.clearTimeout(this.#handle);
    return this;
  }
  ref() {
    this.#isRef = true;
    this.#handle.ref();
    return this;
  }
  unref() {
    this.#isRef = false;
    this.#handle.unref();
    return this;
  }
  hasRef() {
    return this.#isRef;
  }
  [Symbol.toPrimitive]() {
    return this.#handle[Symbol.toPrimitive]();
  }
}

const movedSetTimeout = (callback, delayMs, ...args) => new MovedTimeout(() => callback(...args), delayMs);
const movedClearTimeout = (timer) => (timer instanceof MovedTimeout ? void timer.close() : real.clearTimeout(timer));
const sleep = (delayMs, value, { signal, ref = true } = {}) =>
  new Promise((resolve, reject) => {
    const stop = () => {
      timer.close();
      reject(new DOMException('The operation was aborted', { name: 'AbortError', cause: signal.reason }));
    };
    const timer = new MovedTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve(value);
    }, delayMs);
    if (!ref) timer.unref();
    if (signal?.aborted) stop();
    else signal?.addEventListener('abort', stop, { once: true });
  });

Object.assign(globalThis, { setTimeout: movedSetTimeout, clearTimeout: movedClearTimeout });
Object.assign(timers, { setTimeout: movedSetTimeout, clearTimeout: movedClearTimeout });
Object.assign(promises, { setTimeout: sleep });
// What is imported by name is what was assigned just now.
syncBuiltinESMExports();

process.on('SIGUSR2', () => {
  const before = offsetMs;
  offsetMs = readOffset();
  leaptMs += Math.max(0, offsetMs - before);
  for (const timer of [...waiting].sort((a, b) => a.dueMs - b.dueMs)) timer.arm();
});
