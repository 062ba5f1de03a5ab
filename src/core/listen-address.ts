/** An address to listen on, as people write it, and whether only this machine can reach it. Pure; resolves no names. */

export interface ListenAddress {
  /** Empty: all addresses of the machine. IPv6 without brackets. */
  readonly host: string;
  /** 0: the system picks a free port. */
  readonly port: number;
}

const MAX_PORT = 65_535;

/** Parses `host:port`, `[::]:8686`, or `:8686` for all addresses of the machine; `undefined` for anything else. */
export function parseListenAddress(text: string): ListenAddress | undefined {
  const match = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]*)):(\d{1,5})$/i.exec(text.trim());
  const port = Number(match?.[3]);
  if (!match || port > MAX_PORT) return undefined;
  return { host: match[1] ?? match[2] ?? '', port };
}

/** `host:port`, with brackets around an IPv6 host. */
export function formatListenAddress({ host, port }: ListenAddress): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/**
 * Whether only programs on this machine can connect to the host. Only the name `localhost` counts: others may resolve
 * to any address.
 */
export function isLoopback(host: string): boolean {
  return /^(localhost|127(\.\d{1,3}){3}|::1|::ffff:127(\.\d{1,3}){3})$/i.test(host);
}

/** The host of a `Host` header in lower case, without port and brackets; empty if there is none. */
export function parseHostHeader(header = ''): string {
  return (/^\[([^\]]*)\](?::\d+)?$/.exec(header)?.[1] ?? /^([^:]*)(?::\d+)?$/.exec(header)?.[1] ?? '').toLowerCase();
}
