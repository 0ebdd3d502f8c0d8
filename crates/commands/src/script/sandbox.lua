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
local clean = native.clean

local READONLY = 'Attempt to modify a readonly table'

-- What scripts know as KEYS and ARGV: the same two tables run after run, for a script has nowhere to keep them. With room for the
-- few words that most scripts get.
local function with_room()
    local t = { false, false, false }
    t[1], t[2], t[3] = nil, nil, nil
    return t
end
local its_keys, its_args = with_room(), with_room()
-- Whether the globals are those of scripts, with these tables; those of functions are others.
local for_scripts, for_functions = false, false
-- What functions get that only look elements up, and how many keys the last call had; nil: the globals are not those of functions.
local lent_keys, lent_args, lent = with_room(), with_room(), nil

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

-- What stands for an error outside: natives' errors become strings and tables here.
local function caught(ok, err, ...)
    if ok then
        return ok, err, ...
    end
    err = clean(err)
    if type(err) == 'table' and type(err.err) == 'string' then
        return false, err.err
    end
    return false, err
end

local base = {
    _VERSION = _VERSION, assert = assert, collectgarbage = collectgarbage, error = error, gcinfo = gcinfo, ipairs = ipairs,
    rawequal = rawequal, select = select, tonumber = tonumber, tostring = tostring, type = type, unpack = unpack,
}

function base.pcall(...)
    return caught(pcall(...))
end

function base.xpcall(f, handler)
    return xpcall(f, function(err)
        return handler(clean(err))
    end)
end

function base.getmetatable(value)
    return getmetatable(value) or nil
end

function base.setmetatable(t, ...)
    if guarded[t] then
        error(READONLY, 0)
    end
    if t == its_keys or t == its_args then
        its_keys, its_args, for_scripts = with_room(), with_room(), false
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

-- Compiled code may be anything: only text is loaded.
function base.loadstring(text, name)
    if type(text) == 'string' and byte(text, 1) == 27 then
        return nil, 'bytecode is not allowed'
    end
    return loadstring(text, name)
end

function base.load(reader, name)
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

local function surround_script()
    base.redis, base.server = api, api
    base.KEYS, base.ARGV = its_keys, its_args
    for_scripts, for_functions, lent = true, false, nil
end

local function surround_function()
    base.redis, base.server = function_api, function_api
    base.KEYS, base.ARGV = nil, nil
    for_scripts, for_functions = false, true
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

getmetatable('').__metatable = guard({ __index = base.string })

-- Where the run has failed, while its stack is there.
local source, line
local function note_place(err)
    source, line = native.place()
    return err
end

-- What a failed run leaves: a table with the error, and where it happened.
local function failure(err)
    err = clean(err)
    if type(err) ~= 'table' then
        err = { err = 'ERR ' .. tostring(err) }
    end
    err.source, err.line, source, line = source, line, nil, nil
    return err
end

local function run(f)
    local ok, value = xpcall(f, note_place)
    if ok then
        return ok, value
    end
    return ok, failure(value)
end

local runner = {}

-- The first n words are keys, the others arguments.
local function split(n, ...)
    if n == 0 then
        return {}, { ... }
    end
    local all, keys, args = { ... }, {}, {}
    for i = 1, n do
        keys[i] = all[i]
    end
    for i = n + 1, #all do
        args[i - n] = all[i]
    end
    return keys, args
end

local function empty(t)
    for key in next, t do
        t[key] = nil
    end
end

-- Runs a script with up to three words, of which the first n are keys. What it returns comes with true, a failure with false.
function runner.script(f, n, a, b, c)
    if not for_scripts then
        surround_script()
    end
    local keys, args = its_keys, its_args
    keys[1], args[1] = nil, nil
    if next(keys) ~= nil then
        empty(keys)
    end
    if next(args) ~= nil then
        empty(args)
    end
    if n == 1 then
        keys[1], args[1], args[2] = a, b, c
    elseif n == 0 then
        args[1], args[2], args[3] = a, b, c
    elseif n == 2 then
        keys[1], keys[2], args[1] = a, b, c
    else
        keys[1], keys[2], keys[3] = a, b, c
    end
    local ok, value = xpcall(f, note_place)
    if ok then
        return ok, value
    end
    return ok, failure(value)
end

-- The same with words that are in tables already, for there may be more of them than a call can have.
function runner.script_of(f, keys, args)
    surround_script()
    base.KEYS, base.ARGV, for_scripts = keys, args, false
    return run(f)
end

-- The same with any number of words that a call can have.
function runner.script_with(f, n, ...)
    return runner.script_of(f, split(n, ...))
end

-- What the function that is called next is, and what it gets: a closure a call would cost more.
local called, called_keys, called_args

local function enter()
    return called(called_keys, called_args)
end

local function enter_lent()
    return called(lent_keys, lent_args)
end

function runner.call_of(f, keys, args)
    if not for_functions then
        surround_function()
    end
    called, called_keys, called_args = f, keys, args
    return run(enter)
end

function runner.call_with(f, n, ...)
    return runner.call_of(f, split(n, ...))
end

-- A function may keep its tables.
function runner.call(f, n, a, b, c)
    if not for_functions then
        surround_function()
    end
    if n == 1 then
        called_keys = { a }
        if b == nil then
            called_args = {}
        else
            called_args = { b, c }
        end
    elseif n == 0 then
        called_keys, called_args = {}, { a, b, c }
    elseif n == 2 then
        called_keys, called_args = { a, b }, { c }
    else
        called_keys, called_args = { a, b, c }, {}
    end
    called = f
    local ok, value = xpcall(enter, note_place)
    if ok then
        return ok, value
    end
    return ok, failure(value)
end

local function lend(n)
    if not for_functions then
        surround_function()
    end
    lent_keys[1], lent_keys[2], lent_keys[3] = nil, nil, nil
    lent_args[1], lent_args[2], lent_args[3] = nil, nil, nil
    lent = n
end

-- The same for a function that neither keeps nor changes its tables.
function runner.call_lent(f, n, a, b, c)
    if n ~= lent then
        lend(n)
    end
    if n == 1 then
        lent_keys[1], lent_args[1], lent_args[2] = a, b, c
    elseif n == 0 then
        lent_args[1], lent_args[2], lent_args[3] = a, b, c
    elseif n == 2 then
        lent_keys[1], lent_keys[2], lent_args[1] = a, b, c
    else
        lent_keys[1], lent_keys[2], lent_keys[3] = a, b, c
    end
    called = f
    local ok, value = xpcall(enter_lent, note_place)
    if ok then
        return ok, value
    end
    return ok, failure(value)
end

function runner.load(f)
    globals_meta.__index = loading
    local ok, err = run(f)
    globals_meta.__index = base
    return ok, err
end

-- What is wrong with a text.
function runner.why_not(text, name)
    local _, why = loadstring(text, name)
    return why
end

return runner, globals
