-- shared/latch: what the steps of a latch begin with. It stands behind shared/opening.

-- The count under a key, 0 if there is none; and the word for what else is there.
local function count_at(key)
  local kind = kind_of(key)
  if kind == 'none' then
    return 0
  end
  local text = kind == 'string' and call('GET', key) or ''
  if not string.find(text, '^[1-9]%d*$') then
    return 0, kind
  end
  return tonumber(text)
end
