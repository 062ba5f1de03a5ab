/** The events of a run in progress: data for progress bars and logs, never for decisions. */

/** What a run is doing now. */
export const RUN_PHASES = ['planning', 'fetching', 'recounting', 'sealing', 'auditing', 'mailing'] as const;

export type RunPhase = (typeof RUN_PHASES)[number];

export type RunEvent =
  /** `date` is empty for a phase of the whole run. Fetching has its own events, `date` and `page`. */
  | { readonly kind: 'phase'; readonly date: string; readonly phase: RunPhase }
  /** `rows` is `undefined` when they cannot be counted beforehand. */
  | {
      readonly kind: 'planned';
      readonly dates: readonly string[];
      readonly rows: number | undefined;
      readonly pages: number;
    }
  | {
      readonly kind: 'date';
      readonly date: string;
      readonly rows: number | undefined;
      readonly staged: number;
      readonly pages: number;
    }
  | { readonly kind: 'page'; readonly date: string; readonly window: string; readonly rows: number }
  | { readonly kind: 'split'; readonly date: string; readonly window: string; readonly reason: string }
  | { readonly kind: 'recounted'; readonly date: string; readonly changed: number }
  | {
      readonly kind: 'sealed';
      readonly date: string;
      readonly rows: number;
      readonly sizeBytes: number;
      readonly requests: number;
    }
  | { readonly kind: 'failed'; readonly date: string; readonly reason: string }
  | {
      readonly kind: 'mailed';
      readonly date: string;
      readonly to: string;
      readonly outcome: string;
      /** The file that the mail was written to instead of being sent. */
      readonly file?: string;
    };

export type OnRunEvent = (event: RunEvent) => void;
