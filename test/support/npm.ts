/**
 * The environment for npm as on a new machine: without what npm and the test runner set for their own scripts. Where packages
 * come from stays.
 */
export function npmEnv(): Readonly<Record<string, string | undefined>> {
  const isOwn = (name: string) =>
    !/^(npm_|FLOWDROP_|NODE_(ENV|OPTIONS|PATH)|VITEST|INIT_CWD)/i.test(name) ||
    /^npm_config_(registry|cache|userconfig)$/i.test(name);
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => isOwn(name)));
}
