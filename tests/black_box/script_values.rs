//! Scripts answer as Valkey's, to the last value: the same scripts on whichever server is tested, with the real one's
//! answers.

use crate::harness::{expect_bytes, on_each_thread_count, send};

/// A function of scripts that shows values as one text.
const SHOW: &str = "local function show(...) local n = select('#', ...) local t = {...} for i = 1, n do t[i] = tostring(t[i]) end \
                    return table.concat(t, '|') end ";

/// Scripts, and what the real server shows of their values.
const VALUES: &[(&str, &str)] = &[
    // As many values as there are.
    ("pcall(function() end)", "true"),
    ("pcall(error, {1})[1]", "user_script:1: attempt to index a boolean value"),
    ("select('#', pcall(error, {}))", "3"),
    ("pcall(error, {err = 255})", "false|255"),
    ("pcall(error, {err = 'E x'})", "false|E x"),
    ("pcall()", "false|attempt to call a boolean value"),
    ("select('#', coroutine.resume(coroutine.create(function() end)))", "1"),
    ("select('#', loadstring('return 1'))", "1"),
    // Readers of texts.
    ("load(function() return {} end)", "nil|user_script:1: reader function must return a string"),
    ("load(function() error('r') end)", "nil|user_script:1: r"),
    ("loadstring('\\27Lua')", "nil|[string \"\u{1b}Lua\"]:1: unexpected symbol near 'char(27)'"),
    // Errors name the script, and its functions as it calls them.
    (
        "pcall(function() setmetatable(1, {}) end)",
        "false|user_script:1: bad argument #1 to 'setmetatable' (table expected, got number)",
    ),
    ("pcall(function() rawget({}) end)", "false|user_script:1: bad argument #2 to 'rawget' (value expected)"),
    (
        "pcall(function() coroutine.resume(1) end)",
        "false|user_script:1: bad argument #1 to 'resume' (coroutine expected)",
    ),
    (
        "pcall(function() local p = struct.pack p('i', {}) end)",
        "false|user_script:1: bad argument #2 to 'p' (number expected, got table)",
    ),
    ("pcall(struct.pack, 'i')", "false|bad argument #2 to '?' (number expected, got nil)"),
    ("pcall(xpcall, error)", "false|bad argument #2 to '?' (value expected)"),
    (
        "pcall(function() local x = nosuch end)",
        "false|user_script:1: Script attempted to access nonexistent global variable 'nosuch'",
    ),
    (
        "pcall(function() return _G[{}] end)",
        "false|user_script:1: Second argument to luaProtectedTableError must be a string or number",
    ),
    ("pcall(function() cjson.x = 1 end)", "false|user_script:1: Attempt to modify a readonly table"),
    ("pcall(rawset, _G, 'x', 1)", "false|Attempt to modify a readonly table"),
    ("pcall(table.insert, redis, 1)", "false|Attempt to modify a readonly table"),
    ("pcall(setmetatable, getmetatable(''), {})", "false|Attempt to modify a readonly table"),
    // Tables have their keys in one order.
    ("cjson.encode({one = 1, two = 2, three = 3, four = 4})", "{\"four\":4,\"one\":1,\"three\":3,\"two\":2}"),
    (
        "cjson.encode({id = 7, name = 'x', tags = {}, email = 'y'})",
        "{\"id\":7,\"email\":\"y\",\"name\":\"x\",\"tags\":{}}",
    ),
    // Libraries at their edges.
    ("bit.band(1, {}, 'x')", "user_script:1: bad argument #3 to 'band' (number expected, got string)"),
    ("struct.unpack('I16', struct.pack('I16', -2))", "1.844674407371e+19|17"),
    ("struct.unpack('\\0?', 'x')", "1"),
    ("struct.size('!8i3')", "5"),
    ("cmsgpack.unpack('\\207\\255\\255\\255\\255\\255\\255\\255\\254')", "-2"),
    ("cjson.decode('[1]', 2)", "user_script:1: bad argument #1 to 'decode' (expected 1 argument)"),
    (
        "cjson.new().decode_max_depth(nil, 1)",
        "user_script:1: bad argument #2 to 'decode_max_depth' (found too many arguments)",
    ),
    (
        "cjson.new().encode_keep_buffer('x')",
        "user_script:1: bad argument #1 to 'encode_keep_buffer' (invalid option 'x')",
    ),
    ("collectgarbage('setpause', 200)", "200"),
    ("collectgarbage('setstepmul', 200)", "200"),
    ("loadstring('--[[ [[ ]] return 3')()", "3"),
    // Numbers as commands get them, and errors of commands.
    ("redis.call('ECHO', 2^62)", "4611686018427387904"),
    ("redis.call('ECHO', 2^62 + 1024)", "4611686018427389000"),
    ("redis.call('ECHO', -2^63)", "-9223372036854776000"),
    ("redis.call('ECHO', -(0/0)) ~= redis.call('ECHO', 0/0)", "true"),
    ("redis.pcall('SCRIPT', '10').err", "ERR unknown subcommand '10'. Try SCRIPT HELP."),
    ("redis.pcall('SCRIPT', 'a\\r\\nb').err", "ERR unknown subcommand 'a  b'. Try SCRIPT HELP."),
    ("redis.error_reply('A b\\r\\n').err", "A b"),
    ("redis.error_reply('a\\0b').err", "ERR a"),
];

/// Whole scripts, and the real server's replies.
const REPLIES: &[(&str, &str)] = &[
    // Errors are read, and kept, as the handler of the real server leaves them.
    ("error({err = 'X y', source = '@other', line = 7})", "-X y script: on @user_script:1.\r\n"),
    ("error(_G)", "-ERR err_handler_def:10: Attempt to modify a readonly table script: on @err_handler_def:10.\r\n"),
    (
        "local f, e = load(function() error('r') end) return {e.err, e.source, e.line}",
        "*3\r\n$20\r\nERR user_script:1: r\r\n$12\r\n@user_script\r\n:1\r\n",
    ),
    (
        "local f, e = load(function() return {} end) return e.err",
        "$55\r\nERR user_script:1: reader function must return a string\r\n",
    ),
    // A script may go as deep, also where the collector runs there.
    ("local n = 0 local function f() n = n + 1 return 1 + f() end pcall(f) n = 0 pcall(f) return n", ":19997\r\n"),
    (
        "for i = 1, 10 do pcall(redis.call) end \
         local function f(n) if n == 0 then collectgarbage() return 'end' end local ok, r = pcall(f, n - 1) return r end \
         return f(198)",
        "$3\r\nend\r\n",
    ),
    // A walk meets the globals and the functions of a library in one order.
    (
        "local t = {} for name in pairs(bit) do t[#t + 1] = name end return table.concat(t, ' ')",
        "$66\r\ntohex arshift lshift ror bnot bor tobit rol rshift band bswap bxor\r\n",
    ),
    ("return redis.sha1hex(cmsgpack.pack(_G))", "$40\r\nc8ba67fec9c420565a307695f2023cec515bf28d\r\n"),
];

#[test]
fn replies_of_scripts_are_those_of_the_real_server() {
    on_each_thread_count(&[], |server| {
        let mut socket = server.socket();
        for (script, reply) in REPLIES {
            send(&mut socket, &redis::cmd("EVAL").arg(script).arg(0).get_packed_command());
            expect_bytes(&mut socket, reply.as_bytes());
        }
    });
}

/// The commands of a script that has no memory, may write nothing, and whose user may not call them.
#[test]
fn memory_is_the_first_reason_against_a_command_of_a_script() {
    on_each_thread_count(&[], |server| {
        let mut socket = server.socket();
        let oom = "-OOM command not allowed when used memory > 'maxmemory'.";
        let only_reads = "-ERR Write commands are not allowed from read-only scripts.";
        let in_script = " script: on @user_script:1.";
        let mut answers = |words: &[&str], reply: String| {
            let mut command = redis::Cmd::new();
            command.arg(words);
            send(&mut socket, &command.get_packed_command());
            expect_bytes(&mut socket, format!("{reply}\r\n").as_bytes());
        };
        let set = "return redis.call('SET', 'a', 'b')";
        answers(&["EVAL_RO", set, "0"], format!("{only_reads}{in_script}"));
        answers(&["CONFIG", "SET", "maxmemory", "1"], "+OK".to_owned());
        answers(&["EVAL_RO", set, "0"], format!("{oom}{in_script}"));
        answers(&["EVAL_RO", "return redis.call('DEL', 'a')", "0"], format!("{only_reads}{in_script}"));
        answers(&["EVAL", "#!js\nreturn 1", "0"], oom.to_owned());
        answers(&["ACL", "SETUSER", "default", "-set"], "+OK".to_owned());
        answers(&["EVAL", set, "0"], format!("{oom}{in_script}"));
    });
}

#[test]
fn fields_and_flags_of_a_function_have_no_case() {
    on_each_thread_count(&[], |server| {
        let mut socket = server.socket();
        let library = "#!lua name=l\nserver.register_function{Function_Name = 'f', CALLBACK = function() return 1 end, \
                       Flags = {'NO-Writes'}}";
        send(&mut socket, &redis::cmd("FUNCTION").arg("LOAD").arg(library).get_packed_command());
        expect_bytes(&mut socket, b"$1\r\nl\r\n");
        send(&mut socket, &redis::cmd("FCALL_RO").arg("f").arg(0).get_packed_command());
        expect_bytes(&mut socket, b":1\r\n");
    });
}

#[test]
fn values_of_scripts_are_those_of_the_real_server() {
    on_each_thread_count(&[], |server| {
        let mut socket = server.socket();
        for (expression, shown) in VALUES {
            let script = format!(
                "{SHOW} local function f() return show({expression}) end
                local function result(ok, error, text) return ok and text or error end
                return result(pcall(function() return 0, f() end))"
            );
            let script = script.replace('\n', " ");
            send(&mut socket, &redis::cmd("EVAL").arg(script).arg(0).get_packed_command());
            expect_bytes(&mut socket, format!("${}\r\n{shown}\r\n", shown.len()).as_bytes());
        }
    });
}
