-- ARGV: ids; returns {ahead, waiting} for each, {-1, -1} if it doesn't wait
-- One walk through all that waits, in the order of claims: the time grows with its number, not
-- with its product with the number of owners.
promote()
local ahead = {}

-- deals one lane in turns, `before` claims having gone before; returns how many have gone then
local function deal(lane, before)
  local left = {}
  for i, owner in ipairs(redis.call('ZRANGE', owners(lane), 0, -1)) do
    left[i] = redis.call('ZRANGE', queue(lane, owner), 0, -1)
  end
  local turn = 1
  while #left > 0 do
    local more = {}
    for _, ids in ipairs(left) do
      ahead[ids[turn]] = before
      before = before + 1
      if ids[turn + 1] then more[#more + 1] = ids end
    end
    left, turn = more, turn + 1
  end
  return before
end

local front = redis.call('ZRANGE', FRONT, 0, -1)
for i, id in ipairs(front) do ahead[id] = i - 1 end
local waiting = deal('background', deal('interactive', #front))
local lines = { { ahead, waiting } }
ahead = {}
waiting = deal('utility', 0)
lines[2] = { ahead, waiting }

local out = {}
for i = 4, #ARGV do
  local found = { -1, -1 }
  for _, line in ipairs(lines) do
    local before = line[1][ARGV[i]]
    if before then found = { before, line[2] } end
  end
  out[#out + 1] = found
end
return out
