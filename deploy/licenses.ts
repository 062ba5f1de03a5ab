/** `npm run licenses`: the licence of each package that an installation brings, by the lockfile. */
import { licenseOf, PERMISSIVE, readLock } from '../test/support/notice.ts';

const byLicense = new Map<string, string[]>();
for (const locked of readLock().filter(({ dev }) => !dev)) {
  const license = licenseOf(locked);
  byLicense.set(license, [...(byLicense.get(license) ?? []), `${locked.name} ${locked.version}`]);
}
for (const [license, packages] of [...byLicense].sort(([, a], [, b]) => b.length - a.length)) {
  const note = PERMISSIVE.has(license) ? '' : ' (what it asks for is in NOTICE)';
  console.log(`${license}: ${packages.length}${note}`);
  for (const name of [...new Set(packages)].sort()) console.log(`  ${name}`);
}
