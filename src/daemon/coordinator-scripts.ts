/**
 * Server-side scripts for `redis-coordinator.ts`; each runs atomically. Invariant: only the server's clock counts for
 * leases, so the clocks of daemons may differ. Every key is passed to the script, and all keys of a job share one hash
 * tag, so clusters work too. Sending a script twice, because an answer was lost, does no harm.
 *
 * Keys of a job: `claims` (due time -> owner), `leases` (due time, with the end of its lease; removed on completion),
 * `claimed` (due time, with the time of the claim, for cleaning up) and `last` (newest due time).
 */
import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';

/** Longer than a daemon looks back for missed ticks: a tick forgotten earlier could be claimed again. */
const KEEP_MS = (LOOKBACK_DAYS + 2) * 86_400_000;
/** Bounds the duration of a script; the next call does the rest. */
const MAX_AT_ONCE = 100;
/** A take-over call that a lost connection delayed by more than this does nothing. */
const LATE_MS = 2_000;

const PROLOGUE = `
local claims, leases, claimed, last = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function whole(number) return string.format('%.0f', number) end
local function lease(due, ms) redis.call('ZADD', leases, whole(now + ms), due) end
local function keep()
  for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ${KEEP_MS}) end
end
local function record(due, owner)
  redis.call('HSET', claims, due, owner)
  redis.call('ZADD', claimed, whole(now), due)
  if tonumber(due) > tonumber(redis.call('GET', last) or '-1') then redis.call('SET', last, due) end
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', claimed, '-inf', whole(now - ${KEEP_MS}), 'LIMIT', 0, ${MAX_AT_ONCE})) do
    if not redis.call('ZSCORE', leases, old) then
      redis.call('HDEL', claims, old)
      redis.call('ZREM', claimed, old)
    end
  end
end
`;

/**
 * Claims a tick or renews the claim. Arguments: due time, owner, lease. Returns 1 if the owner has the tick. Renewing
 * an unknown tick claims it: a server that lost its data learns of the tick from the daemon that runs it.
 */
export const HOLD_SCRIPT = `${PROLOGUE}
local due, owner = ARGV[1], ARGV[2]
local holder = redis.call('HGET', claims, due)
if holder and (holder ~= owner or not redis.call('ZSCORE', leases, due)) then return 0 end
if not holder then record(due, owner) end
lease(due, ARGV[3])
keep()
return 1
`;

/**
 * Completes a claim. Arguments: due time, owner. Does nothing for an owner that lost the claim; an unknown tick is
 * recorded as complete.
 */
export const COMPLETE_SCRIPT = `${PROLOGUE}
local due, owner = ARGV[1], ARGV[2]
local holder = redis.call('HGET', claims, due)
if not holder then record(due, owner) end
if holder and holder ~= owner then return 0 end
redis.call('ZREM', leases, due)
keep()
return 1
`;

/**
 * Gives the owner the ticks whose lease has expired. Arguments: owner, lease, the server's time (ms) of the request,
 * and the ticks that the requesting daemon runs itself. Returns due times.
 */
export const TAKE_OVER_SCRIPT = `${PROLOGUE}
local mine, taken = {}, {}
if now - tonumber(ARGV[3]) > ${LATE_MS} then return taken end
for i = 4, #ARGV do mine[ARGV[i]] = true end
for _, due in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', whole(now), 'LIMIT', 0, ${MAX_AT_ONCE} + #ARGV)) do
  if not mine[due] then
    redis.call('HSET', claims, due, ARGV[1])
    lease(due, ARGV[2])
    taken[#taken + 1] = due
  end
end
if #taken > 0 then keep() end
return taken
`;
