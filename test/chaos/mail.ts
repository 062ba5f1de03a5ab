/**
 * The mail server of a chaos run: a real one on loopback that counts what it takes, by recipient and Message-ID. It can put
 * mails off, lose its answer, and tell when a mail is under way. Invariant: what is in `taken` was with the server whole.
 */
import { buildReply, startSmtpReceiver } from '../mail/smtp-receiver.ts';
import { Happening } from './happening.ts';

export interface TakenMail {
  readonly to: string;
  readonly messageId: string;
}

export type MailFault =
  /** 451 to the recipient: later. */
  | 'mail-put-off'
  /** The connection breaks before the message is taken. */
  | 'mail-cut'
  /** The message is taken, and the connection breaks before the answer. */
  | 'mail-lost-answer';

export interface MailServer {
  readonly env: Readonly<Record<string, string>>;
  readonly taken: readonly TakenMail[];
  /** What was done, one entry each. */
  readonly faults: readonly MailFault[];
  /** The fault of the message with this number within the attempt. */
  trouble(choose: (number: number) => MailFault | undefined): void;
  /** Calls once, when the `count`th message from now is announced, or was taken. @returns a way to stop listening */
  onMail(count: number, phase: 'announced' | 'taken', act: () => void): () => void;
  close(): Promise<void>;
}

export const RECIPIENTS = ['a@example.com', 'b@example.com', 'c@example.com'] as const;
/** A run may not wait long for a server that puts mails off. */
const RETRY_SECONDS = '1';

export async function startMailServer(): Promise<MailServer> {
  const taken: TakenMail[] = [];
  const faults: MailFault[] = [];
  const mails = { announced: new Happening(), taken: new Happening() };
  let choose: (number: number) => MailFault | undefined = () => undefined;
  let messages = 0;
  let current: MailFault | undefined;
  const note = (fault: MailFault) => {
    faults.push(fault);
    current = undefined;
  };
  const server = await startSmtpReceiver({
    authOptional: true,
    disabledCommands: ['STARTTLS', 'AUTH'],
    onRcptTo(_address, _session, done) {
      messages += 1;
      current = choose(messages);
      mails.announced.note();
      if (current !== 'mail-put-off') return done();
      note(current);
      done(buildReply(451, 'try again later'));
    },
    onData(stream, session, done) {
      const chunks: Buffer[] = [];
      const fault = current;
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        if (fault === 'mail-cut') {
          note(fault);
          return server.drop();
        }
        const to = session.envelope.rcptTo.map(({ address }) => address).join();
        const text = Buffer.concat(chunks)
          .toString('latin1')
          .replaceAll(/\r\n[ \t]+/g, ' ');
        taken.push({ to, messageId: /^message-id: *(\S+)/im.exec(text)?.[1] ?? '' });
        mails.taken.note();
        if (fault === 'mail-lost-answer') {
          note(fault);
          return server.drop();
        }
        done(null);
      });
    },
  });
  return {
    env: { FLOWDROP_SMTP_URL: `smtp://127.0.0.1:${server.port}`, FLOWDROP_MAIL_RETRY_SECONDS: RETRY_SECONDS },
    taken,
    faults,
    trouble(next) {
      choose = next;
      messages = 0;
    },
    onMail: (count, phase, act) => mails[phase].on(count, act),
    close: () => server.close(),
  };
}
