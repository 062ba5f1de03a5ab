/**
 * Loaded into a Node process before its own code (`--import`): at each SIGUSR2 it collects garbage and writes the bytes of
 * its heap that are still in use into the file that `HEAP_FILE` names. What the system counts goes up and down between two
 * collections and tells nothing of a leak. The compiler of hot functions is switched off: what it makes and marks is on the
 * heap too, grows for days, and is not the program's.
 */
import { writeFileSync } from 'node:fs';
import v8 from 'node:v8';
import vm from 'node:vm';

v8.setFlagsFromString('--no-opt');
v8.setFlagsFromString('--expose-gc');
const collect = vm.runInNewContext('gc');

process.on('SIGUSR2', () => {
  collect();
  writeFileSync(process.env.HEAP_FILE, String(process.memoryUsage().heapUsed));
});
