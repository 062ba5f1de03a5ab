/**
 * Mail through an SMTP server. Invariant: a message counts as sent only after the server's answer to the end of DATA; a
 * refusal of the recipient or the message is an outcome, anything else a `Fault` without secrets in it. It does not
 * retry: `run/` does, with the receipt in hand.
 */
import { createTransport } from 'nodemailer';
import { describeError, Fault } from '../core/errors.ts';
import { createRedactor } from '../core/redact.ts';
import type { Mailer, MailMessage, MailOutcome } from './mailer.ts';
import { buildMailOptions } from './message.ts';
import { parseSmtpUrl, type SmtpAddress } from './smtp-url.ts';

export interface SmtpOptions {
  /** `smtp://` or `smtps://` address with user and password; `smtp-url.ts` has the rules of encryption. */
  readonly url: string;
  /**
   * Longest silence of the server, in ms; default 600,000, as RFC 5321 allows after DATA. A shorter one finds a dead
   * server sooner, and mails twice when a slow one had accepted after all.
   */
  readonly timeoutMs?: number;
}

const DEFAULT_TIMEOUT_MS = 600_000;
/** Connecting and greeting repeat nothing, so that they need no patience. */
const CONNECT_TIMEOUT_MS = 30_000;
/** Time the server has to close its side after QUIT. */
const CLOSE_TIMEOUT_MS = 1_000;
/** 5xx answers about the session, not the recipient: bad sequence, authentication or encryption needed. */
const SESSION_REPLIES = [503, 530, 534, 535, 538] as const;

const HINTS: Readonly<Record<string, string>> = {
  EAUTH: 'The server does not accept the user and password in FLOWDROP_SMTP_URL: correct them.',
  EDNS: 'The host name in FLOWDROP_SMTP_URL is not known: correct it, or look at the DNS of this machine.',
  ECONNECTION: 'Look whether the host and port in FLOWDROP_SMTP_URL are right and reachable from here.',
  ESOCKET: 'Look whether the host and port in FLOWDROP_SMTP_URL are right and reachable from here.',
  ETIMEDOUT: 'The server was silent for too long: look whether host and port are right and not behind a firewall.',
  ETLS: 'Give the private CA in NODE_EXTRA_CA_CERTS, smtps:// for port 465, or ?tls=none in a trusted network.',
};
const CERTIFICATE_HINT = "The server's certificate is not trusted: give its CA in NODE_EXTRA_CA_CERTS.";
const SENDER_HINT = 'The server does not take mail from this sender: look at FLOWDROP_MAIL_FROM and the account.';
const LATER_HINT = 'The server may accept it later: send the report again.';

/** What nodemailer adds to its errors, as far as it is used here. */
interface SmtpFailure {
  readonly code: string;
  readonly command: string;
  /** 0 when the failure is not an answer of the server. */
  readonly reply: number;
  readonly text: string;
}

/** @throws Fault `SMTP_URL_INVALID` (usage) */
export function openSmtpMailer(options: SmtpOptions): Mailer {
  const address = parseSmtpUrl(options.url);
  const url = formatUrl(address);
  const redact = createRedactor(listSecrets(address));
  const transport = createTransport(buildTransportOptions(address, options.timeoutMs ?? DEFAULT_TIMEOUT_MS));
  return {
    url,
    async send(message: MailMessage): Promise<MailOutcome> {
      const mail = buildMailOptions(message);
      try {
        const { response } = await transport.sendMail(mail);
        return { status: 'sent', detail: redact(response) };
      } catch (error) {
        const failure = readFailure(error, redact);
        if (isRefusal(failure)) return { status: 'refused', detail: failure.text };
        // The cause is left out: it holds the conversation, and with it what was said to log in.
        throw new Fault('MAIL_FAILED', `mail: ${url} did not take the message: ${failure.text}`, {
          hint: hintFor(failure),
        });
      }
    },
    async close(): Promise<void> {
      transport.close();
    },
  };
}

function buildTransportOptions(address: SmtpAddress, timeoutMs: number) {
  const { host, port, encryption, auth } = address;
  return {
    host,
    port,
    secure: encryption === 'implicit',
    requireTLS: encryption === 'required',
    ignoreTLS: encryption === 'none',
    tls: { rejectUnauthorized: encryption !== 'opportunistic' },
    connectionTimeout: Math.min(timeoutMs, CONNECT_TIMEOUT_MS),
    greetingTimeout: Math.min(timeoutMs, CONNECT_TIMEOUT_MS),
    dnsTimeout: Math.min(timeoutMs, CONNECT_TIMEOUT_MS),
    socketTimeout: timeoutMs,
    socketCloseTimeout: CLOSE_TIMEOUT_MS,
    ...(auth === undefined ? {} : { auth: { user: auth.user, pass: auth.password } }),
  };
}

/** 5xx to the recipient or to the message itself: the same mail would be refused again. */
function isRefusal({ code, command, reply }: SmtpFailure): boolean {
  if (reply < 500 || SESSION_REPLIES.some((session) => session === reply)) return false;
  return command === 'RCPT TO' || (command === 'DATA' && code === 'EMESSAGE');
}

function hintFor({ code, command, reply, text }: SmtpFailure): string {
  if (/certificate/i.test(text)) return CERTIFICATE_HINT;
  if (reply >= 500 && command === 'MAIL FROM') return SENDER_HINT;
  if (reply >= 400 && reply < 500 && code !== 'EAUTH') return LATER_HINT;
  return HINTS[code] ?? 'Look at the answer of the server, and at FLOWDROP_SMTP_URL.';
}

function readFailure(error: unknown, redact: (text: string) => string): SmtpFailure {
  const fields: Readonly<Record<string, unknown>> = error instanceof Error ? { ...error } : {};
  return {
    code: String(fields['code'] ?? ''),
    command: String(fields['command'] ?? ''),
    reply: Number(fields['responseCode'] ?? 0),
    text: redact(describeError(error)),
  };
}

/** The password as itself and as AUTH PLAIN and AUTH LOGIN carry it, should a server repeat what it was sent. */
function listSecrets({ auth }: SmtpAddress): readonly string[] {
  if (auth === undefined) return [];
  const encode = (text: string) => Buffer.from(text).toString('base64');
  return [auth.password, encode(auth.password), encode(`\0${auth.user}\0${auth.password}`)];
}

function formatUrl({ host, port, encryption }: SmtpAddress): string {
  const scheme = encryption === 'implicit' ? 'smtps' : 'smtp';
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
