/** `docs/log.md` against the source: the events and levels that it lists are those that the code logs. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { REPO } from '../support/flowdrop.ts';

const page = readFileSync(join(REPO, 'docs', 'log.md'), 'utf8');
const listed = new Map(
  [...page.matchAll(/^- `([a-z-]+)` \(([a-z ]+)\): /gm)].map(([, event = '', level = '']) => [event, level]),
);

const texts = readdirSync(join(REPO, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => [name, readFileSync(join(REPO, 'src', name), 'utf8')] as const);
/** Calls of a log whose event stands in them, with their level. */
const calls = texts.flatMap(([file, text]) =>
  [...text.matchAll(/\b#?log\.(debug|info|warn|error)\(\s*\{\s*event: '([^']+)'/g)].map(
    ([, level = '', event = '']) => ({
      file,
      level,
      event,
    }),
  ),
);
/** Events of a run become events of the log: those of a date by their facts, and others. */
const ofRuns = [
  ...(texts.find(([file]) => file === 'state/run-events.ts')?.[1] ?? '').matchAll(
    /^ {2}([a-z]+): \{ readonly|kind: '([a-z-]+)'/gm,
  ),
].map(([, ofDate, kind = '']) => ofDate ?? kind);
const named = texts.flatMap(([, text]) => [...text.matchAll(/\bevent: '([^']+)'/g)].map(([, event = '']) => event));

describe('the list of events', () => {
  it('lists exactly those that the code logs', () => {
    expect(calls.length).toBeGreaterThan(30);
    expect(ofRuns.length).toBeGreaterThan(5);
    expect([...listed.keys()].sort()).toEqual([...new Set([...named, ...ofRuns])].sort());
  });

  it('has the level of each', () => {
    const wrong = calls.filter(({ event, level }) => listed.get(event) !== level);
    expect(wrong).toEqual([]);
  });
});

/** The answers of the service are data; the log of the status page has its reason beside the event. */
const WORDLESS = ['request'];

describe('every line of the log', () => {
  it('has an event in kebab case', () => {
    expect(named.filter((event) => !/^[a-z]+(-[a-z]+)*$/.test(event))).toEqual([]);
    // A variable holds an entry with its event; a text alone has none.
    const bare = texts.flatMap(([file, text]) =>
      [...text.matchAll(/\blog\.(?:debug|info|warn|error)\(\s*(['"`][^)]*)/g)].map(([, said]) => `${file}: ${said}`),
    );
    expect(bare).toEqual([]);
  });

  it('has a message for people, but for those whose event and fields say it all', () => {
    const wordless = texts.flatMap(([, text]) =>
      [...text.matchAll(/\b#?log\.(?:debug|info|warn|error)\(\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})\s*\)/g)].map(
        ([, entry = '']) => /event: '([a-z-]+)'/.exec(entry)?.[1] ?? entry,
      ),
    );
    expect(wordless.filter((event) => !WORDLESS.includes(event))).toEqual([]);
  });

  it('has durations and sizes with their unit', () => {
    const entries = texts.flatMap(([file, text]) =>
      [...text.matchAll(/\blog\.(?:debug|info|warn|error)\(\s*(\{[^}]*\})/g)].map(([, entry = '']) => ({
        file,
        entry,
      })),
    );
    const wrong = entries.filter(({ entry }) =>
      /\b(ms|seconds|bytes|duration|elapsed|size|took|age)\b\s*[:,]/.test(entry),
    );
    expect(wrong).toEqual([]);
  });
});
