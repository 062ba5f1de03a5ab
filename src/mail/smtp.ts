/**
 * Sends mail through an SMTP server. Invariant: a message counts as sent only after the server asked for its data (354)
 * and answered to their end. A refusal of the recipient or the message is an outcome; any other failure is a `MailFault` without secrets,
 * which says whether the message may have been delivered anyway. One connection serves many messages. This module does
 * not resend a message: `deliver/deliver-date.ts` does, guided by the receipt. The end of a message is sent only after the sender has
 * confirmed it: without it, a server accepts nothing.
 */
import { pipeline, Transform } from 'node:stream';
import { createTransport } from 'nodemailer';
import { describeError, Fault } from '../core/errors.ts';
import { createRedactor } from '../core/redact.ts';
import {
  buildMailOptions,
  type Mailer,
  type MailFate,
  MailFault,
  type MailMessage,
  type MailOutcome,
  type SendOptions,
} from './message.ts';

interface SmtpOptions {
  /** `smtp://` or `smtps://` address with user and password; `parseSmtpUrl` has the rules for encryption. */
  readonly url: string;
  /**
   * Longest silence of the server, in ms; default 600,000, as RFC 5321 allows after DATA. A shorter timeout detects a
   * dead server sooner, but sends a mail twice if a slow server had accepted it after all.
   */
  readonly timeoutMs?: number;
}

const DEFAULT_TIMEOUT_MS = 600_000;
/** A failed connection or greeting cannot cause a second mail, so this timeout can be short. */
const CONNECT_TIMEOUT_MS = 30_000;
/** How long the server may take to close its side after QUIT. */
const CLOSE_TIMEOUT_MS = 1_000;
/** Pool settings: one connection, to keep the load on the server low, with no limit on its messages. */
const MAX_CONNECTIONS = 1;
const MAX_MESSAGES = Number.POSITIVE_INFINITY;
/** One retry over a new connection if the server closed the idle one before a byte of the message was read. */
const MAX_REQUEUES = 1;
/** 5xx answers about the session, not the recipient: bad sequence, authentication or encryption needed. */
const SESSION_REPLIES = [503, 530, 534, 535, 538] as const;

/** Failures without an answer that no retry fixes: certificate or missing STARTTLS; login; invalid envelope. */
const LASTING_CODES = ['ETLS', 'EAUTH', 'ENOAUTH', 'EENVELOPE'] as const;

const HINTS: Readonly<Record<string, string>> = {
  EAUTH: 'The server does not accept the user and password in FLOWDROP_SMTP_URL: correct them.',
  EDNS: 'The host name in FLOWDROP_SMTP_URL cannot be resolved: correct it, or check the DNS of this machine.',
  ECONNECTION: 'Check that the host and port in FLOWDROP_SMTP_URL are right and reachable from here.',
  ESOCKET: 'Check that the host and port in FLOWDROP_SMTP_URL are right and reachable from here.',
  ETIMEDOUT: 'The server did not answer in time: check the host, the port and the firewall.',
  ETLS: 'Set NODE_EXTRA_CA_CERTS to the private CA, use smtps:// for port 465, or ?tls=none in a trusted network.',
};
const CERTIFICATE_HINT = "The server's certificate is not trusted: set NODE_EXTRA_CA_CERTS to its CA.";
const DATA_HINT =
  'What answers there does not take mail as SMTP wants it: check the host and port in FLOWDROP_SMTP_URL.';
const SENDER_HINT = 'The server does not accept mail from this sender: check FLOWDROP_MAIL_FROM and the account.';
const UNKNOWN_HINT =
  'It may have been delivered. The next run sends it again with the same Message-ID, so that a duplicate can be recognized.';
const LATER_HINT = 'The server may accept it later: send the report again.';

/** The fields of nodemailer's errors that we use. */
type SmtpFailure = ReturnType<typeof readFailure>;

interface UnderWay {
  readonly confirm: SendOptions['confirm'];
  /** The last stream before the socket. */
  gate?: Transform | undefined;
  /** Why the sender withdrew the message. */
  denial?: { readonly reason: unknown } | undefined;
}

/** Passes the message on, but its end only after the sender confirms it: until then the server has accepted nothing. */
function createGate(message: UnderWay | undefined): Transform {
  return new Transform({
    transform: (chunk, _encoding, done) => done(null, chunk),
    flush(done) {
      if (!message?.confirm) return done();
      message.confirm().then(
        () => done(),
        (reason: unknown) => {
          message.denial = { reason };
          done(new Error('the sender aborted the message'));
        },
      );
    },
  });
}

/** Listens to the conversation, of which one message is the subject at a time: the transport takes any 2xx for a 354. */
function createTalk() {
  let unanswered = 0;
  let command = '';
  let answer = '';
  const ignore = () => undefined;
  const debug = ({ tnx }: { readonly tnx?: string }, line: unknown) => {
    const text = String(line);
    if (tnx === 'client') {
      // Commands may be sent before the earlier ones are answered.
      unanswered = text.startsWith('MAIL FROM') ? 1 : unanswered + 1;
      command = text;
    } else if (tnx === 'server') {
      unanswered -= 1;
      if (command === 'DATA' && unanswered === 0) answer = text;
    }
  };
  return {
    logger: { debug, trace: ignore, info: ignore, warn: ignore, error: ignore, fatal: ignore },
    answerToData: () => answer,
  };
}

/** @throws Fault `SMTP_URL_INVALID` (usage) */
export function openSmtpMailer(options: SmtpOptions): Mailer {
  const address = parseSmtpUrl(options.url);
  const url = formatUrl(address);
  const redact = createRedactor(listSecrets(address));
  const talk = createTalk();
  const transport = createTransport({
    ...buildTransportOptions(address, options.timeoutMs ?? DEFAULT_TIMEOUT_MS),
    ...{ logger: talk.logger, transactionLog: true },
  });
  /** Messages being sent, by Message-ID. */
  const underWay = new Map<string, UnderWay>();
  transport.use('stream', (mail, done) => {
    mail.message.processFunc((input) => {
      const message = underWay.get(mail.message.messageId());
      const gate = createGate(message);
      if (message) message.gate = gate;
      // The transport gets errors of the input from the stream that it reads.
      return pipeline(input, gate, () => undefined);
    });
    done();
  });
  return {
    url,
    delivers: true,
    async send(message: MailMessage, { confirm }: SendOptions = {}): Promise<MailOutcome> {
      const mail = buildMailOptions(message);
      const id = String(mail.messageId);
      const state: UnderWay = { confirm };
      underWay.set(id, state);
      try {
        const { response } = await transport.sendMail(mail);
        const isWhole = state.gate?.readableEnded === true;
        if (!isWhole || !talk.answerToData().startsWith('354')) {
          const what = `${url} did not take the message: it answered DATA with ${redact(talk.answerToData())}`;
          throw new MailFault(
            isWhole ? 'unknown' : 'settings',
            `mail: ${what}${isWhole ? '' : `, and with ${redact(response)} before it had all of it`}`,
            { hint: DATA_HINT },
          );
        }
        return { status: 'sent', detail: redact(response) };
      } catch (error) {
        if (state.denial) throw state.denial.reason;
        if (error instanceof MailFault) throw error;
        const failure = readFailure(error, redact);
        if (isRefusal(failure)) return { status: 'refused', detail: failure.text };
        const fate = judgeFate(failure, state.gate?.readableEnded === true);
        // The cause is left out: it holds the SMTP conversation, including the login.
        throw new MailFault(fate, `mail: ${url} did not accept the message: ${failure.text}`, {
          hint: fate === 'unknown' ? UNKNOWN_HINT : hintFor(failure),
        });
      } finally {
        underWay.delete(id);
      }
    },
    async verify(): Promise<string> {
      // A delivery may wait for a server that is silent for minutes, but here a person waits.
      const timeoutMs = Math.min(options.timeoutMs ?? DEFAULT_TIMEOUT_MS, CONNECT_TIMEOUT_MS);
      const trial = createTransport(buildTransportOptions(address, timeoutMs));
      try {
        await trial.verify();
        return `${url} answers${address.auth ? ' and accepts the login' : '; no login is set'} (TLS: ${address.encryption})`;
      } catch (error) {
        const failure = readFailure(error, redact);
        throw new MailFault('settings', `mail: ${url} cannot be used: ${failure.text}`, { hint: hintFor(failure) });
      } finally {
        trial.close();
      }
    },
    async close(): Promise<void> {
      transport.close();
    },
  };
}

/**
 * @param wasHandedOver all bytes of the message were given to the socket: a server that then stays silent may have
 *   accepted it
 */
function judgeFate(failure: SmtpFailure, wasHandedOver: boolean): MailFate {
  if (failure.reply === 0) {
    if (wasHandedOver) return 'unknown';
    const isLasting = isCertificate(failure) || LASTING_CODES.some((code) => code === failure.code);
    return isLasting ? 'settings' : 'unreachable';
  }
  return failure.reply >= 500 || failure.code === 'EAUTH' ? 'settings' : 'later';
}

function buildTransportOptions(address: SmtpAddress, timeoutMs: number) {
  const { host, port, encryption, auth } = address;
  return {
    pool: true as const,
    maxConnections: MAX_CONNECTIONS,
    maxMessages: MAX_MESSAGES,
    maxRequeues: MAX_REQUEUES,
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

/** 5xx for the recipient or the message itself: the same mail would be refused again. */
function isRefusal({ code, command, reply }: SmtpFailure): boolean {
  if (reply < 500 || SESSION_REPLIES.some((session) => session === reply)) return false;
  return command === 'RCPT TO' || (command === 'DATA' && code === 'EMESSAGE');
}

/** A certificate failure has the code of any broken connection; only its text identifies it. */
function isCertificate({ text }: Pick<SmtpFailure, 'text'>): boolean {
  return /certificate/i.test(text);
}

function hintFor({ code, command, reply, text }: SmtpFailure): string {
  if (isCertificate({ text })) return CERTIFICATE_HINT;
  if (reply >= 500 && command === 'MAIL FROM') return SENDER_HINT;
  if (reply >= 400 && reply < 500 && code !== 'EAUTH') return LATER_HINT;
  return HINTS[code] ?? 'Check the answer of the server and FLOWDROP_SMTP_URL.';
}

function readFailure(error: unknown, redact: (text: string) => string) {
  const fields: Readonly<Record<string, unknown>> = error instanceof Error ? { ...error } : {};
  return {
    code: String(fields['code'] ?? ''),
    command: String(fields['command'] ?? ''),
    /** The server's reply code; 0 if the failure is not a server's answer. */
    reply: Number(fields['responseCode'] ?? 0),
    text: redact(describeError(error)),
  };
}

/** The password in plain text and as AUTH PLAIN and AUTH LOGIN encode it, in case a server echoes it. */
function listSecrets({ auth }: SmtpAddress): readonly string[] {
  if (auth === undefined) return [];
  const encode = (text: string) => Buffer.from(text).toString('base64');
  return [auth.password, encode(auth.password), encode(`\0${auth.user}\0${auth.password}`)];
}

function formatUrl({ host, port, encryption }: SmtpAddress): string {
  const scheme = encryption === 'implicit' ? 'smtps' : 'smtp';
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

type SmtpEncryption = 'implicit' | 'required' | 'opportunistic' | 'none';

type SmtpAddress = ReturnType<typeof parseSmtpUrl>;

/** Submission (RFC 6409) and submission over TLS (RFC 8314). */
const DEFAULT_PORTS = { 'smtp:': 587, 'smtps:': 465 } as const;
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|::1)$/i;

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
 * @throws Fault `SMTP_URL_INVALID` (usage)
 */
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
    hint: 'Write smtp://user:password@host:587 or smtps://user:password@host:465, with special characters escaped; or folder, if mail belongs into FLOWDROP_OUTBOX_DIR.',
  });
}
