/** `npm run licenses`: the license of each package that is installed, from the lockfile. */
import { licenseOf, PERMISSIVE, readLock } from '../test/support/notice.ts';

const byLicense = new Map<string, string[]>();
for (const locked of readLock().filter(({ dev }) => !dev)) {
  const license = licenseOf(locked);
  byLicense.set(license, [...(byLicense.get(license) ?? []), `${locked.name} ${locked.version}`]);
}
for (const [license, packages] of [...byLicense].sort(([, a], [, b]) => b.length - a.length)) {
  const note = PERMISSIVE.has(license) ? '' : ' (its terms are in NOTICE)';
  console.log(`${license}: ${packages.length}${note}`);
  for (const name of [...new Set(packages)].sort()) console.log(`  ${name}`);
}
