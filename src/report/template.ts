/**
 * Renders templates to mail bodies and pages: Eta fills in values, and MJML turns a mail into HTML that mail programs
 * understand. Invariant: in `.mjml` and `.eta` templates every value is escaped, so data is never markup; text templates
 * are filled in without escaping. Both libraries load on first use.
 */
import { describeError, Fault } from '../core/errors.ts';
import {
  findTemplate,
  findTemplateError,
  locateMarkup,
  openTemplates,
  type TemplateFolders,
} from './template-folder.ts';

/** Fills in `<name>.mjml` and compiles it. @throws Fault `TEMPLATE_INVALID` (kind `usage`) with file and line */
export async function renderHtmlTemplate(folders: TemplateFolders, name: string, view: object): Promise<string> {
  const file = `${name}.mjml`;
  return await guard(folders, file, async () => {
    const markup = await fillIn(folders, file, view, true);
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
  });
}

/** Fills in `<name>.eta`, an HTML page of its own. @throws Fault `TEMPLATE_INVALID` (kind `usage`) with file and line */
export async function renderPageTemplate(folders: TemplateFolders, name: string, view: object): Promise<string> {
  const file = `${name}.eta`;
  return await guard(folders, file, async () => squeeze(await fillIn(folders, file, view, true)));
}

/** Fills in `<name>.txt`. @throws Fault `TEMPLATE_INVALID` (kind `usage`) with file and line */
export async function renderTextTemplate(folders: TemplateFolders, name: string, view: object): Promise<string> {
  const file = `${name}.txt`;
  return await guard(folders, file, async () => {
    const text = await fillIn(folders, file, view, false);
    return text.replace(/\n{3,}/g, '\n\n').trimStart();
  });
}

/** A template may include another one: `<%~ include('./style.mjml', it) %>`. */
async function fillIn(folders: TemplateFolders, file: string, view: object, autoEscape: boolean): Promise<string> {
  return (await openTemplates(folders, autoEscape))(file, view);
}

/** Removes indentation, except in preformatted text, because mail programs clip long HTML. */
function squeeze(html: string): string {
  const parts = html.split(/(<pre[\s>][\s\S]*?<\/pre>)/);
  return parts
    .map((part) => (part.startsWith('<pre') ? part : part.replace(/^[ \t]+/gm, '').replace(/\n{2,}/g, '\n')))
    .join('');
}

async function guard(folders: TemplateFolders, file: string, action: () => Promise<string>): Promise<string> {
  try {
    return await action();
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
