/** Masking secrets in text: the log, failures and `--json` all pass through it. Pure. */

/** Secrets shorter than this are not masked by value: they would blank ordinary words. */
const MIN_SECRET_LENGTH = 6;

/** Returns a function that masks every known secret in a text, also where it is percent- or JSON-encoded. */
export function createRedactor(secrets: readonly string[]): (text: string) => string {
  const forms = new Set<string>();
  for (const secret of secrets) {
    if (secret.length < MIN_SECRET_LENGTH) continue;
    forms.add(secret).add(encodeURIComponent(secret)).add(JSON.stringify(secret).slice(1, -1));
  }
  const longestFirst = [...forms].sort((a, b) => b.length - a.length);
  return (text) => longestFirst.reduce((masked, secret) => masked.replaceAll(secret, '[secret]'), text);
}
