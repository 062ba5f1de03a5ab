/**
 * Parses `FLOWDROP_SMTP_URL`. Invariant: a password never crosses a network in plain text unless the URL asks for it,
 * and no error shows the URL itself. Pure.
 *
 * | URL | encryption |
 * |---|---|
 * | `smtps://user:password@host` (port 465) | TLS from the first byte, certificate verified |
 * | `smtp://user:password@host` (port 587) | STARTTLS required, certificate verified |
 * | `smtp://127.0.0.1:1025`, `localhost`, `[::1]` | STARTTLS if offered, certificate not verified: it stays local |
 * | any `smtp://...?tls=required` | as for other hosts, on loopback too |
 * | any `smtp://...?tls=none` | plain text, also the password: for a relay inside a trusted network |
 */
import { Fault } from '../core/errors.ts';

type SmtpEncryption = 'implicit' | 'required' | 'opportunistic' | 'none';

export type SmtpAddress = ReturnType<typeof parseSmtpUrl>;

/** Submission (RFC 6409) and submission over TLS (RFC 8314). */
const DEFAULT_PORTS = { 'smtp:': 587, 'smtps:': 465 } as const;
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|::1)$/i;

/** @throws Fault `SMTP_URL_INVALID` (usage) */
export function parseSmtpUrl(text: string) {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'smtp:' && url?.protocol !== 'smtps:') {
    throw invalid('is not an smtp:// or smtps:// address');
  }
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  if (host === '') throw invalid('has no host');
  if (url.pathname !== '' && url.pathname !== '/') throw invalid('has a path; write / in a password as %2F');
  return {
    host,
    port: url.port === '' ? DEFAULT_PORTS[url.protocol] : Number(url.port),
    encryption: parseEncryption(url, host),
    auth: url.username === '' ? undefined : { user: decode(url.username), password: decode(url.password) },
  };
}

function parseEncryption(url: URL, host: string): SmtpEncryption {
  const unknown = [...url.searchParams.keys()].find((name) => name !== 'tls');
  if (unknown !== undefined) throw invalid(`has the unknown parameter ${unknown}; tls is the only one`);
  const tls = url.searchParams.get('tls');
  if (tls !== null && tls !== 'required' && tls !== 'none')
    throw invalid('has an invalid tls; allowed are required and none');
  if (url.protocol === 'smtps:') {
    if (tls === 'none') throw invalid('has both smtps:// and tls=none');
    return 'implicit';
  }
  return tls ?? (LOOPBACK.test(host) ? 'opportunistic' : 'required');
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw invalid('has a user or password with a % that is not an escape; write a literal % as %25');
  }
}

function invalid(what: string): Fault {
  return new Fault('SMTP_URL_INVALID', `mail: the SMTP address ${what}`, {
    kind: 'usage',
    hint: 'Write smtp://user:password@host:587 or smtps://user:password@host:465, with special characters escaped.',
  });
}
