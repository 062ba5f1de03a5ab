/** A real SMTP server on loopback that keeps what it accepts. Its certificate is the self-signed one of `smtp-server`. */
import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';

export interface SmtpReceiver {
  readonly port: number;
  readonly messages: readonly { readonly to: string; readonly source: Buffer; readonly isEncrypted: boolean }[];
  /** Connections that were ever made. */
  connections(): number;
  /** Breaks every connection there is, without a word. */
  drop(): void;
  close(): Promise<void>;
}

/** @param isAnswered called when a message is there whole: if it says no, nobody is told that it is */
export async function startSmtpReceiver(
  options: SMTPServerOptions = {},
  isAnswered: (to: string) => boolean = () => true,
): Promise<SmtpReceiver> {
  const messages: { to: string; source: Buffer; isEncrypted: boolean }[] = [];
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    logger: false,
    onData(stream, session, done) {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        const to = session.envelope.rcptTo.map(({ address }) => address).join();
        messages.push({ to, source: Buffer.concat(chunks), isEncrypted: session.secure });
        if (isAnswered(to)) done(null, 'queued');
      });
    },
    ...options,
  });
  // A client that turns away from our certificate is an error here, and a fact under test there.
  server.on('error', () => {});
  const listener = server.listen(0, '127.0.0.1');
  const sockets: Socket[] = [];
  listener.on('connection', (socket: Socket) => void sockets.push(socket));
  await once(listener, 'listening');
  return {
    port: (listener.address() as AddressInfo).port, // A listening TCP server has an address with a port.
    messages,
    connections: () => sockets.length,
    drop() {
      for (const socket of sockets) socket.destroy();
    },
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

/** An error that the server sends as this reply. */
export function buildReply(responseCode: number, message: string): Error {
  return Object.assign(new Error(message), { responseCode });
}
