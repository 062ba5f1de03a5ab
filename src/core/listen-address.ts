/** An address to listen on, as people write it, and whether only this machine can reach it. Pure; resolves no names. */

export interface ListenAddress {
  /** Empty: every address of the machine. IPv6 without brackets. */
  readonly host: string;
  /** 0: a free one. */
  readonly port: number;
}

const MAX_PORT = 65_535;

/** `host:port`, `[::]:8686`, or `:8686` for every address of the machine; `undefined` when it is none of them. */
export function parseListenAddress(text: string): ListenAddress | undefined {
  const match = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]*)):(\d{1,5})$/i.exec(text.trim());
  const port = Number(match?.[3]);
  if (!match || port > MAX_PORT) return undefined;
  return { host: match[1] ?? match[2] ?? '', port };
}

/** `host:port`, with brackets where the host is an IPv6 address. */
export function formatListenAddress({ host, port }: ListenAddress): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** Whether only programs of this machine can connect to the host. A name other than `localhost` may mean anything. */
export function isLoopback(host: string): boolean {
  return /^(localhost|127(\.\d{1,3}){3}|::1|::ffff:127(\.\d{1,3}){3})$/i.test(host);
}
