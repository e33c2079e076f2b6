-- ARGV: engine, id, epoch; returns 1 if it was the engine's
local id = ARGV[5]
if lease(id, ARGV[4], ARGV[6]) ~= 'own' then return 0 end
awake()
take_back(id, false)
bump_control()
bump_places()
return 1
