/**
 * The house rules that a test can hold: who may import whom, no circles, and what STYLE asks of every file. The rules
 * are read from the source text, so that they cannot drift from it.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';
import { REPO } from './support/flowdrop.ts';

const SRC = join(REPO, 'src');
/** Above this a file has more than one thought; only tables of data may be longer. */
const MAX_LINES = 400;
/** Tables of data may be longer: a row more makes them no harder to read. */
const TABLES_OF_DATA: readonly string[] = ['cli/commands.ts', 'report/numbers.ts'];

/**
 * The rooms from top to bottom, as the page of the architecture draws them. A room imports rooms of the lines below its
 * own, types included, never one beside it or above it: where an arrow would run up, a fact has the wrong owner.
 */
const LAYERS = readLayers(readFileSync(join(REPO, 'docs/architecture.md'), 'utf8'));

/** Rooms that may import less than what lies below them. */
const ONLY: Readonly<Record<string, readonly string[]>> = {
  // The worker and the service share nothing but the contract: each could be replaced without the other.
  service: ['guard', 'exposure', 'engine', 'calendar', 'api-contract', 'core'],
  // It starts runs as children, so it needs what describes a job, and no part that does the work.
  daemon: ['state', 'plan', 'job', 'calendar', 'api-contract', 'core'],
  'main.ts': ['cli', 'openers.ts', 'core'],
};

const NOT_OF_THE_WORKER = 'service';

/** The only places that may load these packages. */
const PACKAGE_HOMES: Readonly<Record<string, readonly string[]>> = {
  chdb: ['engine'],
  '@clickhouse/client': ['engine'],
  '@aws-sdk/client-s3': ['store'],
  '@aws-sdk/s3-request-presigner': ['store'],
  nodemailer: ['mail'],
  // The request budget of many machines, and the schedule of many daemons.
  ioredis: ['core', 'source', 'daemon'],
  fastify: ['service'],
  'prom-client': ['service', 'daemon'],
  '@fastify/compress': ['service'],
  '@fastify/cookie': ['service'],
  commander: ['cli'],
  '@modelcontextprotocol/sdk': ['cli'],
  mjml: ['report'],
  vega: ['report'],
  'vega-lite': ['report'],
  '@resvg/resvg-js': ['report'],
  pdfkit: ['report'],
  'markdown-it': ['report'],
  eta: ['report'],
};

interface Import {
  readonly from: string;
  readonly to: string;
  readonly typeOnly: boolean;
  readonly lazy: boolean;
}

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
const texts = new Map(files.map((file) => [file, readFileSync(join(SRC, file), 'utf8')]));
const imports = files.flatMap(readImports);

describe('imports', () => {
  it('go down only', () => {
    const wrong = imports
      .filter(({ to }) => to.endsWith('.ts'))
      .filter(({ from, to, lazy }) => {
        const [a, b] = [roomOf(from), roomOf(to)];
        if (a === b) return false;
        if (b === NOT_OF_THE_WORKER) return a !== 'cli' || !(lazy || isLazy(from));
        if (ONLY[a]) return !ONLY[a].includes(b);
        return layerOf(b) <= layerOf(a);
      })
      .map(({ from, to }) => `${from} -> ${to}`);
    expect(wrong).toEqual([]);
  });

  it('have no circles, types included', () => {
    expect(findCircle()).toBeUndefined();
  });

  it('of a package that belongs to one folder are made there only', () => {
    const wrong = imports
      .filter(({ from, to }) => {
        const home = PACKAGE_HOMES[packageOf(to)];
        return home !== undefined && !home.includes(roomOf(from));
      })
      .map(({ from, to }) => `${from} -> ${to}`);
    expect(wrong).toEqual([]);
  });

  it('reach every folder that the rules name, and no other', () => {
    expect([...new Set(files.map(roomOf))].sort()).toEqual(LAYERS.flat().sort());
  });
});

describe('every file of src', () => {
  it.each(files)('%s opens with a doc comment', (file) => {
    expect(texts.get(file)?.replace(/^#!.*\n/, '')).toMatch(/^\/\*\*/);
  });

  it('has a kebab-case name of plain words', () => {
    const wrong = files.filter((file) => !/^([a-z][a-z0-9-]*\/){0,2}[a-z][a-z0-9-]*(\.d)?\.ts$/.test(file));
    const vague = files.filter((file) => /\b(utils?|helpers?|common|misc|manager)\b/.test(file));
    expect([...wrong, ...vague]).toEqual([]);
  });

  it(`has at most ${MAX_LINES} lines, unless it is a table of data`, () => {
    const long = [...texts]
      .filter(([file, text]) => text.split('\n').length > MAX_LINES && !TABLES_OF_DATA.includes(file))
      .map(([file]) => file);
    expect(long).toEqual([]);
  });

  it('has named exports only, and re-exports nothing', () => {
    const wrong = [...texts]
      .filter(([file]) => !file.endsWith('.d.ts'))
      .filter(([, text]) => /^export (default|\*|\{[^}]*\} from)/m.test(text))
      .map(([file]) => file);
    expect(wrong).toEqual([]);
  });

  it('reads nothing of the process but in the entry file', () => {
    const wrong = [...texts]
      .filter(([file, text]) => file !== 'main.ts' && /\bprocess\.(env|argv|exit|cwd|on|std)/.test(code(text)))
      .map(([file]) => file);
    expect(wrong).toEqual([]);
  });

  it('makes folders by core/folder.ts: a recursive mkdir does not return below /proc', () => {
    const wrong = [...texts]
      .filter(([, text]) => /\bmkdir(Sync)?\([^)]*recursive/.test(code(text)))
      .map(([file]) => file);
    expect(wrong).toEqual([]);
  });

  it('throws nothing that an operator could not act on: no bare Error', () => {
    // RangeError, SyntaxError and TypeError tell a caller inside the program, who turns them into a Fault.
    const wrong = [...texts].filter(([, text]) => /throw new Error\(/.test(code(text))).map(([file]) => file);
    expect(wrong).toEqual([]);
  });

  it('tells the time by a clock that is passed in', () => {
    const wrong = [...texts]
      .filter(([file, text]) => file !== 'core/clock.ts' && /\bDate\.now\(\)|new Date\(\)/.test(code(text)))
      .map(([file]) => file);
    expect(wrong).toEqual([]);
  });
});

describe('the package', () => {
  const manifest = JSON.parse(readFileSync(join(REPO, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>;
    devDependencies: Record<string, string>;
  };
  it('pins every dependency to one version', () => {
    const loose = Object.entries({ ...manifest.dependencies, ...manifest.devDependencies }).filter(
      ([, version]) => !/^\d/.test(version),
    );
    expect(loose).toEqual([]);
  });

  it('uses every dependency that it installs for users', () => {
    const used = new Set(imports.map(({ to }) => packageOf(to)));
    const text = [...texts.values()].join('\n');
    const unused = Object.keys(manifest.dependencies).filter((name) => !used.has(name) && !text.includes(`'${name}/`));
    expect(unused).toEqual([]);
  });

  it('has a lockfile without download addresses', () => {
    expect(readFileSync(join(REPO, 'npm-shrinkwrap.json'), 'utf8')).not.toContain('"resolved": "http');
  });
});

function readLayers(page: string): readonly (readonly string[])[] {
  const [, drawn = ''] = /```text illustration\n([\s\S]*?)```/.exec(page) ?? [];
  return drawn
    .trim()
    .split('\n')
    .map((line) => (line.split(/ {2,}/)[0] ?? '').split(' | '));
}

function readImports(file: string): readonly Import[] {
  const text = texts.get(file) ?? '';
  const found: Import[] = [];
  for (const match of text.matchAll(/^(?:import|export)\s+(type\s+)?([^'";]*?)from\s+'([^']+)'/gms)) {
    const names = match[2] ?? '';
    const braced = /\{([^}]*)\}/s.exec(names)?.[1];
    const allTypes = braced?.split(',').every((name) => name.trim() === '' || name.trim().startsWith('type ')) ?? false;
    found.push({
      from: file,
      to: resolve(file, match[3] ?? ''),
      typeOnly: match[1] !== undefined || allTypes,
      lazy: false,
    });
  }
  for (const match of text.matchAll(/\bimport\('([^']+)'\)/g)) {
    found.push({ from: file, to: resolve(file, match[1] ?? ''), typeOnly: false, lazy: true });
  }
  return found;
}

function resolve(from: string, specifier: string): string {
  return specifier.startsWith('.') ? relative(SRC, join(SRC, from, '..', specifier)) : specifier;
}

/** A command that the table imports when it is called: nobody else imports it, so what it imports is loaded then. */
function isLazy(file: string): boolean {
  return imports.filter(({ to }) => to === file).every(({ lazy, typeOnly }) => lazy || typeOnly);
}

function roomOf(file: string): string {
  return file.split('/')[0] ?? file;
}

function layerOf(room: string): number {
  return LAYERS.findIndex((rooms) => rooms.includes(room));
}

function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

/** Comments and string literals are not code. */
function code(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '').replace(/'(?:\\.|[^'\\\n])*'/g, "''");
}

/** The first circle of imports inside `src`, as the path of files, or `undefined`. */
function findCircle(): readonly string[] | undefined {
  const edges = new Map<string, readonly string[]>();
  for (const file of files)
    edges.set(
      file,
      imports.filter(({ from, to }) => from === file && to.endsWith('.ts')).map(({ to }) => to),
    );
  const done = new Set<string>();
  const visit = (file: string, path: readonly string[]): readonly string[] | undefined => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
    if (done.has(file)) return undefined;
    for (const next of edges.get(file) ?? []) {
      const circle = visit(next, [...path, file]);
      if (circle) return circle;
    }
    done.add(file);
    return undefined;
  };
  for (const file of files) {
    const circle = visit(file, []);
    if (circle) return circle;
  }
  return undefined;
}
