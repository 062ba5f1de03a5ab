/**
 * Reads a Dockerfile, and the ignore file beside it, as far as ours uses them. Whatever else is in them is an error, so that
 * a test that follows the file never passes over a line of it.
 */

export type Instruction =
  | { readonly kind: 'from'; readonly image: string; readonly name: string | undefined }
  | { readonly kind: 'run'; readonly command: string }
  | {
      readonly kind: 'copy';
      readonly from: string | undefined;
      readonly sources: readonly string[];
      readonly to: string;
    }
  | { readonly kind: 'arg'; readonly name: string; readonly value: string }
  | { readonly kind: 'env' | 'label'; readonly values: Readonly<Record<string, string>> }
  | { readonly kind: 'workdir' | 'user' | 'volume'; readonly value: string }
  | { readonly kind: 'entrypoint' | 'cmd' | 'healthcheck'; readonly args: readonly string[] };

export interface ImageStage {
  readonly image: string;
  readonly name: string | undefined;
  readonly instructions: readonly Instruction[];
}

/** The stages, in their order, with the defaults of build arguments. @throws Error for a line that it does not know */
export function parseDockerfile(text: string): readonly ImageStage[] {
  const stages: { image: string; name: string | undefined; instructions: Instruction[] }[] = [];
  const args = new Map<string, string>();
  const fill = (value: string) =>
    value.replace(/\$\{(\w+)\}/g, (whole, name: string) => {
      const given = args.get(name);
      if (given === undefined) throw new Error(`no ARG before ${whole}`);
      return given;
    });
  for (const line of joinLines(text)) {
    const instruction = parseLine(line);
    if (instruction.kind === 'arg') args.set(instruction.name, instruction.value);
    if (instruction.kind === 'from') stages.push({ ...instruction, image: fill(instruction.image), instructions: [] });
    else if (instruction.kind === 'label') {
      const values = Object.entries(instruction.values).map(([name, value]) => [name, fill(value)]);
      stages.at(-1)?.instructions.push({ kind: 'label', values: Object.fromEntries(values) });
    } else if (instruction.kind === 'arg') stages.at(-1)?.instructions.push(instruction);
    else if (stages.length === 0) throw new Error(`before the first FROM: ${line}`);
    else stages.at(-1)?.instructions.push(instruction);
  }
  return stages;
}

/** Whether a file of the context may be copied: the last rule that fits counts. @param path relative, with slashes */
export function createIgnore(text: string): (path: string) => boolean {
  const rules = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => ({ keeps: line.startsWith('!'), pattern: line.replace(/^!/, '') }));
  for (const { pattern } of rules) {
    if (pattern !== '*' && /[*?[\]]/.test(pattern)) throw new Error(`not a plain path: ${pattern}`);
  }
  return (path) => {
    const last = rules.findLast(({ pattern }) => pattern === '*' || path === pattern || path.startsWith(`${pattern}/`));
    return last === undefined || last.keeps;
  };
}

/** Lines that end in a backslash go on; comments are left out. */
function joinLines(text: string): readonly string[] {
  return text
    .split('\n')
    .filter((line) => !/^\s*#/.test(line))
    .join('\n')
    .replace(/\\\n\s*/g, '')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
}

function parseLine(line: string): Instruction {
  const [, keyword = '', rest = ''] = /^([A-Z]+)\s+(.*)$/.exec(line) ?? [];
  const { options, value } = splitOptions(rest);
  const words = value.split(/\s+/);
  if (keyword !== 'COPY' && keyword !== 'HEALTHCHECK' && Object.keys(options).length > 0) {
    throw new Error(`options that are not known here: ${line}`);
  }
  switch (keyword) {
    case 'FROM':
      return { kind: 'from', image: words[0] ?? '', name: words[1]?.toUpperCase() === 'AS' ? words[2] : undefined };
    case 'ARG': {
      const [, name = '', given] = /^(\w+)=(\S+)$/.exec(value) ?? [];
      if (given === undefined) throw new Error(`a build argument without a default: ${line}`);
      return { kind: 'arg', name, value: given };
    }
    case 'RUN':
      return { kind: 'run', command: value };
    case 'COPY': {
      const { from, ...unknown } = options;
      if (Object.keys(unknown).length > 0 || words.some((word) => word.startsWith('--')))
        throw new Error(`options that are not known here: ${line}`);
      return { kind: 'copy', from, sources: words.slice(0, -1), to: words.at(-1) ?? '' };
    }
    case 'ENV':
    case 'LABEL':
      return { kind: keyword === 'ENV' ? 'env' : 'label', values: parsePairs(value) };
    case 'WORKDIR':
      return { kind: 'workdir', value };
    case 'USER':
      return { kind: 'user', value };
    case 'VOLUME':
      return { kind: 'volume', value };
    case 'ENTRYPOINT':
      return { kind: 'entrypoint', args: parseExec(value) };
    case 'CMD':
      return { kind: 'cmd', args: parseExec(value) };
    case 'HEALTHCHECK':
      return { kind: 'healthcheck', args: parseExec(value.replace(/^CMD\s+/, '')) };
    default:
      throw new Error(`an instruction that is not known here: ${line}`);
  }
}

/** `--name=value` words before the rest. */
function splitOptions(text: string): { readonly options: Readonly<Record<string, string>>; readonly value: string } {
  const options: Record<string, string> = {};
  let value = text;
  for (;;) {
    const [whole, name, given] = /^--([a-z-]+)=(\S+)\s+/.exec(value) ?? [];
    if (whole === undefined || name === undefined || given === undefined) return { options, value };
    options[name] = given;
    value = value.slice(whole.length);
  }
}

function parsePairs(text: string): Readonly<Record<string, string>> {
  const pairs = [...text.matchAll(/([\w.]+)=(?:"([^"]*)"|(\S+))/g)];
  return Object.fromEntries(pairs.map(([, name = '', quoted, plain]) => [name, quoted ?? plain ?? '']));
}

/** The exec form only: a shell in between would keep SIGTERM for itself. */
function parseExec(text: string): readonly string[] {
  const parsed: unknown = JSON.parse(text);
  if (!Array.isArray(parsed) || !parsed.every((word) => typeof word === 'string'))
    throw new Error(`no exec form: ${text}`);
  return parsed;
}
