/** Doctor's checks of the settings: which are set, misspelled or invalid, and whether others can read the file. */
import { describeError } from '../../core/errors.ts';
import type { SettingReport } from '../../settings/setting-list.ts';
import { type Finding, ok } from './finding.ts';

export function checkSettings({ set, unknown, faults }: SettingReport): readonly Finding[] {
  return [
    set.length > 0
      ? ok('settings', `set: ${set.join(', ')}`)
      : {
          check: 'settings',
          status: 'warn',
          seen: 'none is set in the environment or in .env of this directory',
          next: '`flowdrop init` writes a settings file; run flowdrop in its folder.',
        },
    ...unknown.map(
      ({ name, meant }): Finding => ({
        check: 'settings',
        status: 'warn',
        seen: `${name} is set, but is not a setting`,
        next: meant ? `Did you mean ${meant}?` : 'Unset it, or look up its name in the README.',
      }),
    ),
    ...faults.map(
      (fault): Finding => ({ check: 'settings', status: 'fail', seen: describeError(fault), next: fault.hint }),
    ),
  ];
}

/** @param mode of the settings file; `undefined` if there is none */
export function checkSecrecy(path: string, mode: number | undefined): readonly Finding[] {
  if (mode === undefined) return [];
  const shown = (mode & 0o777).toString(8);
  if ((mode & 0o077) === 0) return [ok('settings file', `${path} is readable by its owner only (mode ${shown})`)];
  return [
    {
      check: 'settings file',
      status: 'warn',
      seen: `other users may read ${path} (mode ${shown}), and the secrets in it`,
      next: `chmod 600 ${path}`,
    },
  ];
}
