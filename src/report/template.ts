/**
 * Renders templates to mail bodies and pages: Eta fills in values, and MJML turns a mail into HTML that mail programs
 * understand. Invariant: in `.mjml` and `.eta` templates every value is escaped, so data is never markup; text templates
 * are filled in without escaping. Both libraries load on first use.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { join, normalize } from 'node:path';
import { compileFunction, createContext, runInContext, Script } from 'node:vm';
import type { Eta } from 'eta';
import { hasErrorCode } from '../core/atomic-file.ts';
import { describeError, Fault } from '../core/errors.ts';

/** What becomes of a template that is filled in, by its extension. */
const FINISH: Readonly<Record<string, (text: string) => string | Promise<string>>> = {
  eta: squeeze,
  txt: (text) => text.replace(/\n{3,}/g, '\n\n').trimStart(),
  async mjml(markup) {
    const { default: mjml2html } = await import('mjml');
    const { html } = await mjml2html(markup, {
      validationLevel: 'strict',
      keepComments: false,
      // No web fonts: opening a mail must not contact a server, and the mail programs' own fonts suffice.
      fonts: {},
      // Halves the size: the inlined styles already say the same.
      juiceOptions: { applyAttributesTableElements: false, applyWidthAttributes: false },
    });
    return squeeze(html);
  },
};

/** Removes indentation, except in preformatted text, because mail programs clip long HTML. */
function squeeze(html: string): string {
  const parts = html.split(/(<pre[\s>][\s\S]*?<\/pre>)/);
  return parts
    .map((part) => (part.startsWith('<pre') ? part : part.replace(/^[ \t]+/gm, '').replace(/\n{2,}/g, '\n')))
    .join('');
}

/**
 * Fills in a template: `<name>.mjml` (a mail), `.eta` (a page of its own) or `.txt`. It may include another one:
 * `<%~ include('./style.mjml', it) %>`.
 * @throws Fault `TEMPLATE_INVALID` (kind `usage`) with file and line
 */
export async function renderTemplate(folders: TemplateFolders, file: string, view: object): Promise<string> {
  const [, extension = ''] = file.split('.');
  try {
    const text = (await openTemplates(folders, extension !== 'txt'))(file, view);
    return (await FINISH[extension]?.(text)) ?? text;
  } catch (cause) {
    const placed = findTemplateError(cause) ?? locateMarkup(folders, cause);
    const message = placed?.message ?? `${findTemplate(folders, file)}: ${describeError(cause)}`;
    throw new Fault('TEMPLATE_INVALID', `template ${message}`, {
      kind: 'usage',
      // Of a placed fault it would be generated code.
      ...(placed ? {} : { cause }),
      hint: 'Templates are MJML with Eta tags; the comment at the top of the shipped template lists the fields that can be printed.',
    });
  }
}

/** For text templates: cuts or pads to `width`, aligned left, for text. */
export function alignLeft(value: string, width: number): string {
  return cutTo(value, width).padEnd(width);
}

/** For text templates: cuts or pads to `width`, aligned right, for numbers. */
export function alignRight(value: string, width: number): string {
  return cutTo(value, width).padStart(width);
}

function cutTo(value: string, width: number): string {
  return value.length > width ? `${value.slice(0, width - 1)}…` : value;
}

type Compiled = ReturnType<Eta['compile']>;

/** Filling in the largest report takes a hundredth of a second. */
const MAX_RENDER_MS = 5_000;

interface TemplateFolders {
  readonly shipped: string;
  /** Its files replace shipped ones of the same name; null: none does. */
  readonly own: string | null;
}

/** A fault of a template's own text. */
class TemplateError extends Error {
  override readonly name = 'TemplateError';

  constructor(file: string, line: number | null, message: string, cause?: unknown) {
    super(`${file}${line === null ? '' : `:${line}`}: ${message}`, { cause });
  }
}

/** The path of a template's file; it may not exist. @throws TemplateError for a name outside the folder */
function findTemplate({ shipped, own }: TemplateFolders, name: string): string {
  const inside = normalize(name);
  if (inside.startsWith('..') || inside.startsWith('/')) {
    throw new TemplateError(name, null, 'a template includes only files of its folder');
  }
  return own !== null && readIfThere(join(own, inside)) !== undefined ? join(own, inside) : join(shipped, inside);
}

/** Fills in a template of the folders; names file and line of what goes wrong in it. */
async function openTemplates(
  folders: TemplateFolders,
  autoEscape: boolean,
): Promise<(file: string, view: object) => string> {
  const { Eta } = await import('eta');
  const eta = new Eta({ autoEscape, autoTrim: false, views: folders.shipped, defaultExtension: '', debug: true });
  const sandbox: { fill?: () => string } = {};
  // What a template defers is done within its time, too.
  const context = createContext(sandbox, { microtaskMode: 'afterEvaluate' });
  eta.resolvePath = (name) => findTemplate(folders, name);
  eta.compile = (text, options) => {
    const { filepath: file = '' } = (options ?? {}) as { readonly filepath?: string };
    try {
      return compileFunction(eta.compileToString(text, options), ['it', 'options'], {
        parsingContext: context,
      }) as Compiled;
    } catch (error) {
      throw locate(eta, file, text, error);
    }
  };
  return (file, view) => {
    sandbox.fill = () => eta.render(file, view);
    try {
      return String(runInContext('fill()', context, { timeout: MAX_RENDER_MS }));
    } catch (error) {
      // An error of the template's own world is no `Error` of ours.
      if ((error as { readonly code?: unknown } | null)?.code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
      const message = `does not end within ${MAX_RENDER_MS / 1000} s: look for a loop without an end`;
      throw new TemplateError(findTemplate(folders, file), null, message, error);
    }
  };
}

/** The innermost fault: an included template's, not that of the ones around it. */
function findTemplateError(error: unknown): TemplateError | undefined {
  let found: TemplateError | undefined;
  for (let one = error; one instanceof Error; one = one.cause) {
    if (one instanceof TemplateError) return one;
    // As Eta writes faults of a running template: file, line, the lines around it, the reason.
    const [, file, line] = /^(.+):(\d+)\n/.exec(one.message) ?? [];
    if (file !== undefined)
      found = new TemplateError(file, Number(line), one.message.split('\n\n').at(-1) ?? '', error);
  }
  return found;
}

interface MarkupFault {
  readonly message: string;
  readonly tagName: string;
}

/** The first fault that MJML finds in the markup that templates make, at a line of a template that has the element. */
function locateMarkup({ shipped, own }: TemplateFolders, error: unknown): TemplateError | undefined {
  const { errors: [fault] = [] } = error as { readonly errors?: readonly MarkupFault[] };
  if (fault === undefined) return undefined;
  const { message, tagName } = fault;
  const attribute = /^Attribute (\S+)/.exec(message)?.[1] ?? '';
  // What a job brought is the likelier place.
  for (const folder of [...(own === null ? [] : [own]), shipped]) {
    for (const name of readdirSync(folder).filter((file) => file.endsWith('.mjml'))) {
      const lines = (readIfThere(join(folder, name)) ?? '').split('\n');
      const at = lines.findIndex((line) => line.includes(`<${tagName}`) && line.includes(attribute));
      if (at >= 0) return new TemplateError(join(folder, name), at + 1, `${tagName}: ${message}`, error);
    }
  }
  return undefined;
}

/** Of a text that the engine cannot read: it names a line itself, or the generated code does, which has the lines. */
function locate(eta: Eta, file: string, text: string, error: unknown): TemplateError {
  const [what = ''] = describeError(error).split('\n');
  const named = / at line (\d+) col \d+/.exec(what);
  if (named) return new TemplateError(file, Number(named[1]), what.replace(/ at line .*$/, ''), error);
  const code = eta.compileToString(text);
  try {
    new Script(`(function (it, options) {\n${code}\n})`, { filename: 'template' });
  } catch (syntax) {
    const at = Number(/^template:(\d+)/.exec((syntax as Error).stack ?? '')?.[1] ?? 0);
    const before = code.split('\n').slice(0, at).join('\n');
    const line = [...before.matchAll(/__eta\.line=(\d+)$/gm)].at(-1)?.[1];
    const { message } = syntax as Error;
    const said = UNBALANCED.test(message) ? 'a block is closed twice, or not at all' : message;
    return new TemplateError(file, line === undefined ? null : Number(line), said, error);
  }
  return new TemplateError(file, null, what, error);
}

/** What the generated code, which has blocks around the template's, lacks then. */
const UNBALANCED = /^(?:Missing catch or finally after try|Unexpected token 'catch'|Unexpected end of input)$/;

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (hasErrorCode(error, 'ENOENT', 'ENOTDIR', 'EISDIR')) return undefined;
    throw error;
  }
}
