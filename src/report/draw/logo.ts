/**
 * A report's logo: whatever it comes as, readers get a PNG that is as small as it is shown. So a mail program needs to know
 * no other format, and nothing that an SVG or a JPEG may contain besides its picture reaches a reader.
 */
import { describeError, Fault } from '../../core/errors.ts';

/** Larger files are photographs, not logos. */
export const MAX_LOGO_BYTES = 500_000;
/** Largest size shown, CSS pixels. */
const MAX_WIDTH = 220;
const MAX_HEIGHT = 44;
/** Image pixels per CSS pixel: sharp on a phone's screen. */
const PIXEL_RATIO = 2;

export interface Logo {
  readonly png: Uint8Array;
  /** CSS pixels. */
  readonly width: number;
  readonly height: number;
}

/** By the first bytes of a file, read as Latin-1. */
function findType(head: string): string | undefined {
  if (head.startsWith('\x89PNG\r\n')) return 'image/png';
  if (head.startsWith('\xff\xd8\xff')) return 'image/jpeg';
  return /^(?:\xef\xbb\xbf)?\s*<(?:\?xml|!DOCTYPE svg|!--|svg[\s>])/.test(head) ? 'image/svg+xml' : undefined;
}

/** Draws the picture at the size of a logo. @throws Fault `LOGO_INVALID` (usage): no picture of a known format, or too large */
export async function drawLogo(file: string, bytes: Uint8Array): Promise<Logo> {
  const fail = (what: string): Fault =>
    new Fault('LOGO_INVALID', `${file}: ${what}`, {
      kind: 'usage',
      hint: 'A logo is a PNG, JPEG or SVG of at most 500 kB.',
    });
  if (bytes.length > MAX_LOGO_BYTES)
    throw fail(`the logo has ${bytes.length} bytes; at most ${MAX_LOGO_BYTES} are allowed`);
  const head = Buffer.from(bytes.subarray(0, 200)).toString('latin1');
  const type = findType(head);
  if (type === undefined) throw fail('the logo is not a PNG, JPEG or SVG');
  const { Resvg } = await import('@resvg/resvg-js');
  const href = `data:${type};base64,${Buffer.from(bytes).toString('base64')}`;
  const font = { loadSystemFonts: false };
  try {
    // Without a size of its own, the image has its natural one.
    const natural = new Resvg(`<svg xmlns="http://www.w3.org/2000/svg"><image href="${href}"/></svg>`, { font });
    const scale = Math.min(1, MAX_WIDTH / natural.width, MAX_HEIGHT / natural.height);
    const [width, height] = [natural.width, natural.height].map((size) => Math.max(1, Math.round(size * scale))) as [
      number,
      number,
    ];
    const size = `width="${width}" height="${height}"`;
    const drawing = `<svg xmlns="http://www.w3.org/2000/svg" ${size}><image href="${href}" ${size}/></svg>`;
    const drawn = new Resvg(drawing, { font, fitTo: { mode: 'width', value: width * PIXEL_RATIO } }).render();
    // A damaged picture is drawn as nothing, without an error.
    if (drawn.pixels.some((value) => value !== 0)) return { png: drawn.asPng(), width, height };
  } catch (error) {
    throw fail(`the logo cannot be drawn: ${describeError(error)}`);
  }
  throw fail('the logo shows nothing: it is damaged, or empty');
}
