/**
 * The API of one run: the fault proxy in front of the service, with the faults and the clock of the present attempt, and a
 * record of which pages went through whole.
 */
import type { Fault, SeenRequest } from '../support/fault-plan.ts';
import { describeFault, isOwnAnswer, startFaultProxy } from '../support/fault-proxy.ts';
import type { RunClock } from './clock.ts';
import { Happening } from './happening.ts';
import type { Trouble } from './trouble.ts';

export interface ApiWatch {
  readonly url: string;
  readonly requests: number;
  /** Milliseconds since anything was asked. */
  idleMs(): number;
  /** Kinds of the faults that were done, one entry each. */
  readonly faults: () => readonly string[];
  /** Pages that reached the service and whose answers were then broken, by their SQL. */
  readonly brokenPages: () => number;
  trouble(trouble: Trouble): void;
  /** Calls once, at the `count`th page that is asked for from now on. @returns a way to stop listening */
  onPage(count: number, act: () => void): () => void;
  /** Calls once, when a request is left without an answer. */
  onStall(act: () => void): () => void;
  close(): Promise<void>;
}

/** Every page asks for the contract's symbol; counts and cuts do not. */
export function isPage(sql: string): boolean {
  return sql.includes('option_symbol');
}

/** Faults that leave the answer as it is. */
function isHarmless(fault: Fault): boolean {
  if (fault.kind === 'close-delimited') return fault.share === 1;
  return ['delay', 'drip', 'informational'].includes(fault.kind);
}

/** @param clock what time it really is at the service */
export async function openApi(target: string, clock: RunClock): Promise<ApiWatch> {
  const proxy = await startFaultProxy(target);
  const seen = new Map<number, SeenRequest>();
  const [pages, stalls] = [new Happening(), new Happening()];
  let wrongDates = 0;
  let asked = performance.now();
  return {
    url: proxy.url,
    get requests() {
      return proxy.requests;
    },
    idleMs: () => performance.now() - asked,
    faults: () => [
      ...proxy.injected.map(({ fault }) => describeFault(fault)),
      ...Array.from({ length: wrongDates }, () => 'wrong API clock'),
    ],
    brokenPages: () =>
      proxy.injected.filter(
        ({ request, fault }) => isPage(seen.get(request)?.sql ?? '') && !isHarmless(fault) && !isOwnAnswer(fault),
      ).length,
    trouble(trouble) {
      asked = performance.now();
      const first = proxy.requests;
      const { apiClock } = trouble;
      if (apiClock) wrongDates += 1;
      proxy.dateBy((number) => {
        if (apiClock && 'garbage' in apiClock) return apiClock.garbage;
        const isWrong = apiClock && (number - first) % apiClock.every === 0;
        return new Date(clock.now() + (isWrong ? apiClock.offsetMs : 0)).toUTCString();
      });
      proxy.follow((request) => {
        note(request);
        const fault = trouble.api(request.number - first);
        return fault && isAllowed(fault, request) ? fault : undefined;
      });
    },
    onPage: (count, act) => pages.on(count, act),
    onStall: (act) => stalls.on(1, act),
    close: () => proxy.close(),
  };

  function note(request: SeenRequest): void {
    seen.set(request.number, request);
    asked = performance.now();
    if (isPage(request.sql)) pages.note();
  }

  function isAllowed(fault: Fault, request: SeenRequest): boolean {
    // Only pages are surely gzipped, whose check sum shows flipped bits; plain JSON has none.
    if (fault.kind === 'garble' && fault.how === 'bytes' && !isPage(request.sql)) return false;
    if (fault.kind === 'stall') stalls.note();
    return true;
  }
}
