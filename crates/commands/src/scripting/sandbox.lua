-- Makes the world that scripts see out of a fresh interpreter: called once with the natives, before any script. Answers what the
-- interpreter calls.
--
-- A read-only table is an empty proxy: reads go through __index to its contents, writes end in __newindex. Functions of the
-- standard library that look at a table without asking its metatable are replaced where they would tell proxies from tables.
local native = ...

local assert, collectgarbage, error, gcinfo, getmetatable, ipairs, load, loadstring, next, pairs, pcall, rawequal, rawget, rawset,
    select, setmetatable, tonumber, tostring, type, unpack, xpcall = assert, collectgarbage, error, gcinfo, getmetatable, ipairs,
    load, loadstring, next, pairs, pcall, rawequal, rawget, rawset, select, setmetatable, tonumber, tostring, type, unpack, xpcall
local byte, concat, insert = string.byte, table.concat, table.insert
local clean, is_ending = native.clean, native.is_ending

local READONLY = 'Attempt to modify a readonly table'

-- Proxy -> contents.
local guarded = {}

local function refuse()
    error(READONLY, 2)
end

local function guard(contents)
    local proxy = {}
    guarded[proxy] = contents
    return setmetatable(proxy, { __index = contents, __newindex = refuse, __metatable = false })
end

local function missing(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

local function no_table(name, value)
    error("bad argument #1 to '" .. name .. "' (table expected, got " .. type(value) .. ")", 3)
end

-- An error that ends the run passes all that catches errors.
local function passed(ok, err, ...)
    if not ok and is_ending() then
        error(err, 0)
    end
    return ok, err, ...
end

-- What stands for an error outside: natives' errors become strings and tables here.
local function caught(ok, err, ...)
    if ok then
        return ok, err, ...
    end
    passed(ok, err)
    err = clean(err)
    if type(err) == 'table' and type(err.err) == 'string' then
        return false, err.err
    end
    return false, err
end

local base = {
    _VERSION = _VERSION, assert = assert, collectgarbage = collectgarbage, error = error, gcinfo = gcinfo, ipairs = ipairs,
    rawequal = rawequal, select = select, tonumber = tonumber, tostring = tostring, type = type,
}

function base.pcall(...)
    local f = ...
    if f == nil and select('#', ...) == 0 then
        return false, 'attempt to call a boolean value'
    end
    return caught(pcall(...))
end

function base.xpcall(f, handler)
    return passed(xpcall(f, function(err)
        -- What ends a run is raised where nothing can end a handler.
        err = clean(err)
        if is_ending() then
            return err
        end
        return handler(err)
    end))
end

function base.getmetatable(value)
    return getmetatable(value) or nil
end

function base.setmetatable(t, ...)
    if guarded[t] then
        error(READONLY, 0)
    end
    return setmetatable(t, ...)
end

function base.rawset(t, ...)
    if guarded[t] then
        error(READONLY, 0)
    end
    return rawset(t, ...)
end

function base.rawget(t, key)
    return rawget(guarded[t] or t, key)
end

function base.next(t, key)
    if type(t) ~= 'table' then
        no_table('next', t)
    end
    return next(guarded[t] or t, key)
end

function base.pairs(t)
    if type(t) ~= 'table' then
        no_table('pairs', t)
    end
    local contents = guarded[t]
    if contents then
        return function(_, key)
            return next(contents, key)
        end, t, nil
    end
    return next, t, nil
end

-- What a function of the interpreter can have on its stack. Its own `unpack` adds bounds without a look at overflow.
local RESULTS_MAX, INT_MIN, INT_MAX = 8000, -2147483648, 2147483647

local function bound(at, value, default)
    if value == nil then
        return default
    end
    return tonumber(value) or error("bad argument #" .. at .. " to 'unpack' (number expected, got " .. type(value) .. ")", 3)
end

function base.unpack(t, i, j)
    if type(t) ~= 'table' then
        no_table('unpack', t)
    end
    local first, last = bound(2, i, 1), bound(3, j, #t)
    if first > last then
        return
    end
    -- The arguments lie on the stack, too.
    local is_whole = i == nil and j == nil
    local most = RESULTS_MAX - (is_whole and 1 or 3)
    if not (first >= INT_MIN and last <= INT_MAX and last - first < most) then
        error('too many results to unpack', 2)
    end
    if is_whole then
        return unpack(t)
    end
    return unpack(t, first, last)
end

-- Nothing is collected while a text is read: the parser does not hold on to all that it works with. It counts in 32 bits.
local function parse(text, name)
    if #text >= INT_MAX then
        return nil, 'not enough memory'
    end
    collectgarbage('stop')
    local loaded, why = loadstring(text, name)
    collectgarbage('restart')
    return loaded, why
end

-- Compiled code may be anything: only text is loaded.
local function load_text(text, name)
    if type(text) ~= 'string' or name ~= nil and type(name) ~= 'string' then
        return loadstring(text, name)
    end
    if byte(text, 1) == 27 then
        local _, why = loadstring('\1', name or text)
        return nil, (why:gsub('char%(1%)', 'char(27)'))
    end
    return parse(text, name)
end
base.loadstring = load_text

function base.load(...)
    local reader, name = ...
    if type(reader) ~= 'function' then
        local got = select('#', ...) == 0 and 'no value' or type(reader)
        error("bad argument #1 to 'load' (function expected, got " .. got .. ")", 2)
    end
    local parts = {}
    while true do
        local part = reader()
        if part == nil or part == '' then
            break
        end
        parts[#parts + 1] = part
    end
    return base.loadstring(concat(parts), name or '=(load)')
end

local function copy(from, names)
    local to = {}
    for name in names:gmatch('%S+') do
        to[name] = from[name]
    end
    return to
end

local tables = copy(table, 'concat foreach foreachi getn maxn remove setn sort')
function tables.insert(t, ...)
    if guarded[t] then
        error(READONLY, 0)
    end
    if type(t) ~= 'table' then
        no_table('insert', t)
    end
    insert(t, ...)
end

local numbers = copy(math, 'abs acos asin atan atan2 ceil cos cosh deg exp floor fmod frexp huge ldexp log log10 max min mod '
    .. 'modf pi pow rad sin sinh sqrt tan tanh')
numbers.random, numbers.randomseed = native.random, native.randomseed

local resume, wrapped = coroutine.resume, copy(coroutine, 'create running status wrap yield')
function wrapped.resume(...)
    local function pass(ok, err, ...)
        if ok then
            return ok, err, ...
        end
        passed(ok, err)
        return false, clean(err)
    end
    return pass(resume(...))
end

base.string = guard(string)
base.table = guard(tables)
base.math = guard(numbers)
base.coroutine = guard(wrapped)
base.os = guard({ clock = os.clock })
for name, library in pairs(native.libraries) do
    base[name] = guard(library)
end
base.redis = guard(native.api)
base.server = base.redis

-- Functions do without what is for scripts only.
local api, function_api = base.redis, {}
for name, value in pairs(native.api) do
    function_api[name] = value
end
function_api.replicate_commands, function_api.breakpoint, function_api.debug = nil, nil, nil
function_api = guard(function_api)

local runner = { xpcall = xpcall }

-- The globals are those of scripts, with these keys and arguments.
function runner.for_scripts(keys, args)
    base.redis, base.server = api, api
    base.KEYS, base.ARGV = keys, args
end

-- The globals are those of functions.
function runner.for_functions()
    base.redis, base.server = function_api, function_api
    base.KEYS, base.ARGV = nil, nil
end

setmetatable(base, { __index = missing })

-- What FUNCTION LOAD lets the text of a library see.
local registration = guard(setmetatable(native.registration, { __index = missing }))
local loading = setmetatable({ redis = registration, server = registration }, { __index = missing })

local globals = {}
guarded[globals] = base
base._G = globals
local globals_meta = { __index = base, __newindex = refuse, __metatable = guard({ __index = guard({}) }) }
setmetatable(globals, globals_meta)

-- The variables that this file sees are nobody else's, and those that all scripts share stay.
if native.insecure_api then
    local getfenv, setfenv, newproxy = getfenv, setfenv, newproxy
    local own = getfenv(1)

    -- A level is counted from the caller of a function that is here, so many levels above.
    local function above(f, depth)
        f = f == nil and 1 or f
        local level = tonumber(f)
        return level and level > 0 and level + depth or f
    end

    -- Who has ended with this call has no level any more.
    function base.getfenv(f)
        local ok, env = pcall(getfenv, above(f, 2))
        if not ok and not env:find('tail call', 1, true) then
            error(env, 2)
        end
        return ok and env ~= own and env or globals
    end

    function base.setfenv(f, env)
        local ok, present = pcall(getfenv, above(f, 2))
        if not ok or present == own or tonumber(f) == 0 then
            error("'setfenv' cannot change environment of given object", 2)
        end
        return (setfenv(above(f, 1), env))
    end

    -- What a metatable of its own would run when it is collected could call commands in the midst of another.
    function base.newproxy(is_table)
        if is_table then
            error('newproxy gives no metatable here', 2)
        end
        return newproxy()
    end
end

getmetatable('').__metatable = guard({ __index = base.string })

-- What the function that is called next is, and what it gets: a closure a call would cost more.
local called, called_keys, called_args

local function enter_called()
    return called(called_keys, called_args)
end

-- Calls a function, which may keep its tables. What it returns comes with true, an error with false.
function runner.call(f, keys, args)
    called, called_keys, called_args = f, keys, args
    return xpcall(enter_called, native.note)
end

function runner.load(f)
    globals_meta.__index = loading
    local ok, err = xpcall(f, native.note)
    globals_meta.__index = base
    return ok, err
end

-- What is wrong with a text.
function runner.why_not(text, name)
    local _, why = load_text(text, name)
    return why
end

return runner, globals
