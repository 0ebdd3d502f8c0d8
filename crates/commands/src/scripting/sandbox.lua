-- Makes the world that scripts see out of a fresh interpreter: called once with the natives, before any script. Returns the
-- functions that the interpreter calls.
--
-- Tables are read-only by Lua itself, and the functions of scripts are Lua's own: no function of this file runs in a script.
local native = ...
local protect, open = native.protect, native.open

local ipairs, loadstring, next, pairs, setfenv, setmetatable, type = ipairs, loadstring, next, pairs, setfenv, setmetatable, type
local getmetatable, lua = getmetatable, getfenv(1)

-- A walk through a table depends on the order in which its keys came. In this one a walk through the globals is that
-- of other servers. Each is set by itself: an assignment of several goes from the last to the first.
local names = {
    'xpcall', 'collectgarbage', 'error', '_VERSION', 'loadstring', 'gcinfo', 'ipairs', 'getmetatable', 'string', 'load', 'rawset', 'table',
    'select', 'type', 'rawequal', 'rawget', 'setmetatable', 'pcall', 'tostring', 'tonumber', 'assert', 'coroutine', 'unpack',
    'pairs', 'next', 'math',
}

math.random, math.randomseed = native.random, native.randomseed
local os = { clock = os.clock }

local function globals_of(api)
    local globals = {}
    globals._G = globals
    for _, name in ipairs(names) do
        globals[name] = lua[name]
    end
    if native.insecure_api then
        globals.getfenv, globals.setfenv, globals.newproxy = lua.getfenv, lua.setfenv, lua.newproxy
    end
    globals.debug = {}
    globals.os = os
    for _, name in ipairs({ 'cjson', 'struct', 'cmsgpack', 'bit' }) do
        globals[name] = native.libraries[name]
    end
    globals.server = api
    globals.redis = api
    globals.debug = nil
    return setmetatable(globals, { __index = native.missing })
end

local function protect_all(t)
    if not protect(t) then
        return
    end
    for _, value in next, t do
        if type(value) == 'table' then
            protect_all(value)
        end
    end
    local meta = getmetatable(t)
    if meta then
        protect_all(meta)
    end
end

local scripts = globals_of(native.api)
scripts.__server__err__handler = native.error_handler
scripts.__redis__err__handler = native.error_handler

-- Functions lack the fields that are for scripts only, and see their globals through a table in which the text of a library sees others.
local functions = globals_of(native.function_api)
local through = { __index = functions }
local shown = setmetatable({}, through)
local registration = setmetatable(native.registration, { __index = native.missing })
local loading = setmetatable({ redis = registration, server = registration }, { __index = native.missing })

for _, t in ipairs({ scripts, functions, shown, loading, getmetatable('') }) do
    protect_all(t)
end

-- The functions below are on the stack of scripts.
setfenv(1, scripts)

local runner = { for_scripts = scripts, for_functions = shown }

-- The keys and arguments of scripts are found in these tables.
function runner.set_words(keys, args)
    open(scripts)
    scripts.KEYS = keys
    scripts.ARGV = args
    protect(scripts)
end

local function see(seen)
    open(through)
    through.__index = seen
    protect(through)
end

function runner.begin_load()
    see(loading)
end

function runner.end_load()
    see(functions)
end

-- Returns the error in a text.
function runner.why_not(text, name)
    local _, why = loadstring(text, name)
    return why
end

return runner
