/** Who types a command, for the records that name a person. */
import { hostname, userInfo } from 'node:os';

/** `alice@host`. A container's user may have no name. */
export function nameUser(): string {
  try {
    return `${userInfo().username}@${hostname()}`;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}@${hostname()}`;
  }
}
