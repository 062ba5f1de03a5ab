/**
 * Masks secrets in text. By value: every known secret, in the encodings it may appear in. By key: any value where only
 * secrets belong (`api_key=`, `Authorization:`, the user of a URL), known or not. Pure.
 */

/** Shorter secrets are not masked by value: that would blank ordinary words. */
const MIN_SECRET_LENGTH = 6;
/** A shorter piece of base64 could be part of an ordinary word. */
const MIN_PIECE_LENGTH = 8;

const MASK = '[secret]';

/** Names of fields that hold only secrets, in any spelling; `x-amz-*` except the ids that identify a request. */
const SECRET_KEY =
  /^(?:proxy-?)?authorization$|^(?:set-?)?cookie$|api-?key$|^(?:\w+-)*(?:password|passwd|secret|token)$|^(?:aws-?)?secret-?access-?key$|^x-amz-(?!request-id$|id-2$)/;

/** Whether a field with this name, in any case and style, is masked completely. */
export function isSecretKey(key: string): boolean {
  const kebab = key
    .replace(/([a-z0-9])([A-Z])/g, '$1-$2')
    .replaceAll('_', '-')
    .toLowerCase();
  return SECRET_KEY.test(kebab);
}

/** Returns a function that masks every known secret in a text, also in the encodings of URLs, JSON and logins. */
export function createRedactor(secrets: readonly string[]): (text: string) => string {
  const forms = new Set<string>();
  for (const secret of secrets) {
    if (secret.length < MIN_SECRET_LENGTH) continue;
    for (const form of listForms(secret)) forms.add(form);
  }
  const longestFirst = [...forms].sort((a, b) => b.length - a.length);
  return (text) => longestFirst.reduce((masked, secret) => masked.replaceAll(secret, MASK), text);
}

function listForms(secret: string): readonly string[] {
  const percent = encodeURIComponent(secret);
  // Form bodies and signatures encode these characters too.
  const strict = percent.replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
  const lower = (text: string) => text.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase());
  const markup = secret.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  return [
    ...[secret, percent, strict, lower(percent), lower(strict), strict.replaceAll('%20', '+')],
    ...[JSON.stringify(secret).slice(1, -1), markup, markup.replaceAll('"', '&quot;').replaceAll("'", '&#39;')],
    ...listBase64(secret),
  ];
}

/**
 * The secret in base64, alone and inside a longer text (`user:password`), where the text before it shifts its bits by
 * none, two or four. The first and last character also hold bits of the neighbours, so they are left out.
 */
function listBase64(secret: string): readonly string[] {
  const bytes = Buffer.from(secret);
  const whole = bytes.toString('base64');
  const inside = [0, 1, 2].map((shift) => {
    const text = Buffer.concat([Buffer.alloc(shift), bytes])
      .toString('base64')
      .replaceAll('=', '');
    const end = (shift + bytes.length) % 3 === 0 ? text.length : text.length - 1;
    return text.slice(shift === 0 ? 0 : shift + 1, end);
  });
  const pieces = [whole, whole.replace(/=+$/, ''), ...inside.filter(({ length }) => length >= MIN_PIECE_LENGTH)];
  return pieces.flatMap((piece) => [
    piece,
    piece.replaceAll('+', '-').replaceAll('/', '_'),
    encodeURIComponent(piece),
    JSON.stringify(piece).slice(1, -1),
  ]);
}

/** A placeholder that hints show, not a secret. */
const EXAMPLE_USER = /^(?:USER:PASSWORD|user:password)$/;

const PARAMETER =
  /\b((?:x-amz-(?:signature|credential|security-token)|api[_-]?key|access[_-]?token|token|signature|password|secret)=)[^&\s"'<>\\;,)\]}]+/gi;
const HEADER =
  /\b((?:proxy-)?authorization|(?:set-)?cookie|x-api-key|x-amz-security-token)(\\?["']?\s*[:=]\s*\\?["']?)(?!\[secret\])[^\r\n"'\\]+/gi;
const BEARER = /\b(Bearer|Basic|AUTH (?:PLAIN|LOGIN|XOAUTH2)) +[A-Za-z0-9+/_.~-]{6,}={0,2}/g;
const USER = /([a-z][a-z0-9+.-]*:\/\/)([^\s/@"'<>\\]+)@/gi;

/**
 * Masks values in places where only secrets belong. For messages and logs, not for results: data may have a column
 * `token=`.
 */
export function maskByKey(text: string): string {
  return text
    .replace(USER, (all, scheme: string, user: string) => (EXAMPLE_USER.test(user) ? all : `${scheme}${MASK}@`))
    .replace(PARAMETER, `$1${MASK}`)
    .replace(HEADER, `$1$2${MASK}`)
    .replace(BEARER, `$1 ${MASK}`);
}

/** A copy of a structure with every field that `isSecretKey` matches masked, at any depth. */
export function maskFields(value: unknown): unknown {
  return copyMasked(value, new Set());
}

function copyMasked(value: unknown, above: ReadonlySet<object>): unknown {
  if (typeof value !== 'object' || value === null || above.has(value)) {
    return typeof value === 'object' && value !== null ? '[circular]' : value;
  }
  const path = new Set([...above, value]);
  if (Array.isArray(value)) return value.map((item) => copyMasked(item, path));
  const hasOwnForm = 'toJSON' in value || value instanceof Map || value instanceof Set || ArrayBuffer.isView(value);
  if (hasOwnForm) return value;
  const fields = value instanceof Error ? { ...value, name: value.name, message: value.message } : value;
  return Object.fromEntries(
    Object.entries(fields).map(([key, item]) => [key, isSecretKey(key) ? MASK : copyMasked(item, path)]),
  );
}
