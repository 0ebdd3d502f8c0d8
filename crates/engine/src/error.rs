//! Errors of commands: one variant for each thing that can go wrong, and every text that goes over the wire, in one
//! place.
//!
//! The first word of a text is the code that clients look at. Texts are Valkey's, to the letter. A part of a text that
//! repeats a client's words or names is the variant's payload and stands where the text has `{}`; the text is put
//! together when it is replied. [`Error::WouldBlock`] has none: it is never replied.

use std::borrow::Cow;
use std::fmt;
use structures::thin_bytes::{MAX, PREFIX, ThinBytes};

/// Declares [`Error`]: each variant with its payload, and its text, which documents it.
macro_rules! errors {
    ($($variant:ident $(($($part:ident: $kind:ty),+))? = $text:literal;)*) => {
        /// Reason for which a command has failed.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Error {
            /// The command would wait for a lock that a long script holds. It has changed nothing and is retried later:
            /// this is no error to show, and has no text.
            WouldBlock,
            /// A finished text, from a client (`DEBUG ERROR`) or from Lua's compiler.
            Verbatim(Word),
            /// The finished text that a script has ended with; the statistics of errors have counted it.
            Script(Word),
            $(#[doc = concat!("`` ", $text, " ``")] $variant $(($($kind),+))?,)*
        }

        impl Error {
            /// Returns the text for the client, without the leading `-` and without line ends at its end. None for
            /// [`Error::WouldBlock`].
            #[cold]
            pub fn text(&self) -> Option<Cow<'_, [u8]>> {
                Some(match self {
                    Error::WouldBlock => return None,
                    Error::Verbatim(text) | Error::Script(text) => Cow::Borrowed(trimmed(text.as_ref())),
                    $(Error::$variant $(($($part),+))? => filled($text, &[$($($part.as_ref()),+)?]),)*
                })
            }
        }
    };
}

errors! {
    // HOTKEYS, in the words of Redis.
    HotKeysInProgress = "ERR hotkey tracking session already in progress";
    HotKeysNotStopped = "ERR hotkey tracking session in progress, stop tracking first";
    HotKeysNoMetrics = "ERR METRICS parameter is required";
    HotKeysMetrics = "ERR METRICS count must be > 0 and <= 2";
    HotKeysCpuTwice = "ERR METRICS CPU defined more than once!";
    HotKeysNetTwice = "ERR METRICS NET defined more than once!";
    HotKeysMetricsCount = "ERR METRICS count does not match number of metric types provided";
    HotKeysUnknownMetrics = "ERR METRICS no valid metrics passed. Supported: CPU|NET";
    HotKeysCount = "ERR COUNT must be between 1 and 64";
    HotKeysDuration = "ERR DURATION must be between 1 and 1000000";
    HotKeysSample = "ERR SAMPLE ratio must be positive";
    HotKeysSlots = "ERR SLOTS parameter cannot be used in non-cluster mode";
    HotKeysSlotsTwice = "ERR SLOTS parameter already specified";
    HotKeysSlotCount = "ERR SLOTS count must be between 1 and 16384";
    HotKeysMissingSlots = "ERR not enough slot numbers provided";
    HotKeysForeignSlot(slot: Word) = "ERR slot {} not handled by this node";
    HotKeysSlotTwice = "ERR duplicate slot number";

    // Values and arguments, of any command.
    WrongType = "WRONGTYPE Operation against a key holding the wrong kind of value";
    Syntax = "ERR syntax error";
    WrongArity(command: Word) = "ERR wrong number of arguments for '{}' command";
    NoSuchKey = "ERR no such key";
    BusyKey = "BUSYKEY Target key name already exists.";
    SameObject = "ERR source and destination objects are the same";
    NotAnInteger = "ERR value is not an integer or out of range";
    NotAnInt32 = "ERR value is out of range, value must between -2147483648 and 2147483647";
    NotNegatable = "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";
    NotZeroOrOne = "ERR value is out of range, value must between 0 and 1";
    OutOfRange = "ERR value is out of range";
    NotPositive = "ERR value is out of range, must be positive";
    NotAFloat = "ERR value is not a valid float";
    NotFinite = "ERR value is NaN or Infinity";
    NanOrInfinity = "ERR increment would produce NaN or Infinity";
    Overflow = "ERR increment or decrement would overflow";
    DecrementOverflow = "ERR decrement would overflow";
    IndexOutOfRange = "ERR index out of range";
    OffsetOutOfRange = "ERR offset is out of range";
    StringTooLong = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    NoKeysNumbered = "ERR numkeys should be greater than 0";
    InvalidNumkeys = "ERR invalid numkeys value or out of range";
    MoreKeysThanArguments = "ERR Number of keys can't be greater than number of args";
    NegativeKeyCount = "ERR Number of keys can't be negative";
    CountNotAboveZero = "ERR count should be greater than 0";
    CountMustBeAboveZero = "ERR COUNT must be > 0";
    CountBelowMinusOne = "ERR count should be greater than or equal to -1";
    NegativeCount = "ERR COUNT can't be negative";
    NegativeLimit = "ERR LIMIT can't be negative";
    NegativeMaxlen = "ERR MAXLEN can't be negative";
    RankZero = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list";
    UnsupportedOption(option: Word) = "ERR Unsupported option {}";
    UnrecognizedOption(option: Word) = "ERR Unrecognized option '{}'";
    TimeoutNotAFloat = "ERR timeout is not a float or out of range";
    TimeoutNotAnInteger = "ERR timeout is not an integer or out of range";
    TimeoutNegative = "ERR timeout is negative";
    TimeoutOutOfRange = "ERR timeout is out of range";
    NotOnOrOff = "ERR Argument must be ON or OFF";

    // The keyspace: databases, expiry, SCAN, OBJECT, DUMP, MIGRATE, SORT.
    DbIndex = "ERR DB index is out of range";
    InvalidFirstDbIndex = "ERR invalid first DB index";
    InvalidSecondDbIndex = "ERR invalid second DB index";
    InvalidExpire(command: &'static str) = "ERR invalid expire time in '{}' command";
    ExpireNxConflict = "ERR NX and XX, GT or LT options at the same time are not compatible";
    ExpireGtLtConflict = "ERR GT and LT options at the same time are not compatible";
    FieldCountMismatch = "ERR numfields should be greater than 0 and match the provided number of fields";
    InvalidCursor = "ERR invalid cursor";
    UnknownType(name: Word) = "ERR unknown type name '{}'";
    NoscoresWithoutSortedSet = "ERR NOSCORES option can only be used in ZSCAN";
    NovaluesWithoutHash = "ERR NOVALUES option can only be used in HSCAN";
    LfuNotSelected = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.";
    LfuSelected = "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.";
    InvalidIdleTime = "ERR Invalid IDLETIME value, must be >= 0";
    InvalidFrequency = "ERR Invalid FREQ value, must be >= 0 and <= 255";
    InvalidTtl = "ERR Invalid TTL value, must be >= 0";
    BadPayload = "ERR DUMP payload version or checksum are wrong";
    BadPayloadData = "ERR Bad data format";
    MigrateKeyAndKeys = "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string";
    MigratingAlready = "IOERR another client is migrating the key";
    MigratedKeyChanges = "IOERR the key did not stop changing while it was sent";
    PeerUnreachable = "IOERR error or timeout connecting to the client";
    PeerUnreadable = "IOERR error or timeout reading to target instance";
    PeerUnwritable = "IOERR error or timeout writing to target instance";
    PeerRefused(reply: Word) = "ERR Target instance replied with error: {}";
    SortNotANumber = "ERR One or more scores can't be converted into double";

    // Strings, bitmaps and HyperLogLogs.
    DigestLength = "ERR must be exactly 16 hexadecimal characters";
    DelexNotAString = "ERR Key should be of string type if conditions are specified";
    DelexCondition = "ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE";
    NamedNotAnInteger(what: &'static str) = "ERR {} is not an integer or out of range";
    NamedNotAFloat(what: &'static str) = "ERR {} is not a valid float";
    IncrexInfiniteIncrement = "ERR BYFLOAT increment cannot be Infinity";
    IncrexInfiniteValue = "ERR value cannot be Infinity";
    IncrexBounds = "ERR LBOUND can't be greater than UBOUND";
    IncrexOverflow = "ERR applied increment would overflow";
    IncrexInfinite = "ERR applied increment would be Infinity";
    EnxAlone = "ERR ENX flag requires an expiration";
    LcsNotStrings = "ERR The specified keys must contain string values";
    LcsLenAndIdx = "ERR If you want both the length and indexes, please just use IDX.";
    LcsTooLarge = "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
    BitOffset = "ERR bit offset is not an integer or out of range";
    BitValue = "ERR bit is not an integer or out of range";
    BitArgument = "ERR The bit argument must be 1 or 0.";
    BitopNotManyKeys = "ERR BITOP NOT must be called with a single source key.";
    BitopOneKey(operation: Word) = "ERR BITOP {} must be called with at least two source keys.";
    BitfieldType = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.";
    BitfieldOverflow = "ERR Invalid OVERFLOW type specified";
    BitfieldReadOnly = "ERR BITFIELD_RO only supports the GET subcommand";
    NotAHyperloglog = "WRONGTYPE Key is not a valid HyperLogLog string value.";
    CorruptHyperloglog = "INVALIDOBJ Corrupted HLL object detected";
    HyperloglogNotSparse = "ERR HLL encoding is not sparse";
    NoSuchHyperloglog = "ERR The specified key does not exist";
    UnknownPfdebug(subcommand: Word) = "ERR Unknown PFDEBUG subcommand '{}'";
    PfselftestFailed(what: Word) = "ERR TESTFAILED {}";

    // Hashes, sorted sets and geo.
    HashValueNotAnInteger = "ERR hash value is not an integer";
    HashValueNotAFloat = "ERR hash value is not a float";
    MinOrMaxNotAFloat = "ERR min or max is not a float";
    MinOrMaxNotLex = "ERR min or max not valid string range item";
    ZaddNxAndXx = "ERR XX and NX options at the same time are not compatible";
    ZaddGtLtAndNx = "ERR GT, LT, and/or NX options at the same time are not compatible";
    ZaddIncrManyPairs = "ERR INCR option supports a single increment-element pair";
    ScoreNan = "ERR resulting score is not a number (NaN)";
    WeightNotAFloat = "ERR weight value is not a float";
    NoInputKey(command: &'static str) = "ERR at least 1 input key is needed for '{}' command";
    LimitWithoutBy = "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
    WithscoresByLex = "ERR syntax error, WITHSCORES not supported in combination with BYLEX";
    GeoUnit = "ERR unsupported unit provided. please use M, KM, FT, MI";
    GeoCoordinates(pair: Word) = "ERR invalid longitude,latitude pair {}";
    GeoMemberMissing(member: Word) = "ERR member {} does not exist";
    GeoradiusStoreWith = "ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options";
    GeosearchstoreWith = "ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options";
    GeoLengthNotAFloat(which: &'static str) = "ERR need numeric {}";
    GeoRadiusNegative = "ERR radius cannot be negative";
    GeoBoxNegative = "ERR height or width cannot be negative";
    GeoVertexCount = "ERR invalid number of vertices";
    GeoTooFewVertices = "ERR GEOSEARCH BYPOLYGON must have at least 3 vertices";
    GeoNoCenter(command: Word) = "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {}";
    GeoNoShape(command: Word) = "ERR exactly one of BYRADIUS, BYBOX and BYPOLYGON can be specified for {}";
    GeoAnyWithoutCount = "ERR the ANY argument requires COUNT argument";

    // Streams.
    StreamId = "ERR Invalid stream ID specified as stream command argument";
    StreamStartId = "ERR invalid start ID for the interval";
    StreamEndId = "ERR invalid end ID for the interval";
    StreamTop = "ERR the stream last element ID is 0-0";
    StreamExhausted = "ERR The stream has exhausted the last possible ID, unable to add more items";
    StreamElementTooLarge = "ERR Elements are too large to be stored";
    XaddZeroId = "ERR The ID specified in XADD must be greater than 0-0";
    XaddIdNotAbove = "ERR The ID specified in XADD is equal or smaller than the target stream top item";
    IdempotencyIdEmpty = "ERR the producer and idempotent ids must not be empty";
    IdempotencyDuration = "ERR invalid duration";
    IdempotencyMaxsize = "ERR invalid maxsize";
    XsetidBelowGivenDeleted = "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id";
    XsetidBelowDeleted = "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id";
    XsetidBelowTop = "ERR The ID specified in XSETID is smaller than the target stream top item";
    XsetidAddedNegative = "ERR entries_added must be positive";
    XsetidAddedBelowLength = "ERR The entries_added specified in XSETID is smaller than the target stream length";
    XtrimMaxlenAndMinid = "ERR syntax error, MAXLEN and MINID options at the same time are not compatible";
    XtrimLimitAlone = "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy";
    XtrimLimitExact = "ERR syntax error, LIMIT cannot be used without the special ~ option";
    XtrimNoStrategy = "ERR syntax error, XTRIM must be called with a trimming strategy";
    XtrimMaxlen = "ERR The MAXLEN argument must be >= 0.";
    XtrimLimit = "ERR The LIMIT argument must be >= 0.";
    StreamIdCount = "ERR Number of IDs must be a positive integer";
    StreamIdCountMismatch = "ERR The `numids` parameter must match the number of arguments";
    XreadUnbalanced = "ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be specified.";
    XreadgroupUnbalanced = "ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified.";
    XreadgroupOption(option: &'static str) = "ERR The {} option is only supported by XREADGROUP. You called XREAD instead.";
    XreadNotPositive(option: &'static str) = "ERR {} must be a positive integer";
    XreadMaxcountBelowCount = "ERR MAXCOUNT must not be less than COUNT";
    XreadgroupId = "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.";
    XreadgroupNoGroup = "ERR Missing GROUP option for XREADGROUP";
    XreadgroupDollar = "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.";
    XreadgroupPlus = "ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The + ID would just return an empty result set.";
    MinIdleTimeNotPositive = "ERR min-idle-time must be a positive integer";
    MinIdleTime(command: &'static str) = "ERR Invalid min-idle-time argument for {}";
    XclaimOptionValue(option: &'static str) = "ERR Invalid {} option argument for XCLAIM";
    XclaimOption(option: Word) = "ERR Unrecognized XCLAIM option '{}'";
    NoKeyOrGroup(key: Word, group: Word) = "NOGROUP No such key '{}' or consumer group '{}'";
    XreadgroupNoKeyOrGroup(key: Word, group: Word) = "NOGROUP No such key '{}' or consumer group '{}' in XREADGROUP with GROUP option";
    NoGroup(group: Word, key: Word) = "NOGROUP No such consumer group '{}' for key name '{}'";
    GroupExists = "BUSYGROUP Consumer Group name already exists";
    XgroupNoKey = "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.";
    EntriesRead = "ERR value for ENTRIESREAD must be positive or -1";

    // Admission: commands, clients, the state of the server.
    UnknownCommand(name: Word, args: Word) = "ERR unknown command '{}', with args beginning with: {}";
    UnknownSubcommand(subcommand: Word, command: Word) = "ERR unknown subcommand '{}'. Try {} HELP.";
    SubcommandUse(subcommand: Word, command: &'static str) = "ERR unknown subcommand or wrong number of arguments for '{}'. Try {} HELP.";
    NoAuth = "NOAUTH Authentication required.";
    HelloNoAuth = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time";
    NoPermission(user: Word, command: Word) = "NOPERM User {} has no permissions to run the '{}' command";
    NoKeyPermission = "NOPERM No permissions to access a key";
    NoChannelPermission = "NOPERM No permissions to access a channel";
    NoDatabasePermission = "NOPERM No permissions to access database";
    NoPermissionAtExec(reason: &'static str) = "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: {}";
    ScriptDenied(reason: Word) = "ERR ACL failure in script: {}";
    UnknownCategory(name: Word) = "ERR Unknown category '{}'";
    UserNameSpaces = "ERR Usernames can't contain spaces or null characters";
    AclUnmatched(word: Word) = "ERR Unmatched parenthesis in acl selector starting at '{}'.";
    AclRule(rule: Word, reason: Word) = "ERR Error in ACL SETUSER modifier '{}': {}";
    DefaultUserStays = "ERR The 'default' user cannot be removed";
    GenpassBits = "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096";
    NoRandomness = "ERR The system gives no random numbers";
    AclUserNotFound(name: Word) = "ERR User '{}' not found";
    AclCommandNotFound(name: Word) = "ERR Command '{}' not found";
    NoAclFile = "ERR This instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a configuration file set) in order to store users in the configuration.";
    AclNotSaved = "ERR There was an error trying to save the ACLs. Please check the server logs for more information";
    AclFile(reason: Word) = "ERR {}";
    SortByDenied = "ERR BY option of SORT denied due to insufficient ACL permissions.";
    SortGetDenied = "ERR GET option of SORT denied due to insufficient ACL permissions.";
    WrongPass = "WRONGPASS invalid username-password pair or user is disabled.";
    NoPasswordSet = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?";
    NoProto = "NOPROTO unsupported protocol version";
    ProtocolNotAnInteger = "ERR Protocol version is not an integer or out of range";
    HelloOption(option: Word) = "ERR Syntax error in HELLO option '{}'";
    QuotaConnections(user: Word) = "QUOTA User {} has as many connections as it may have";
    QuotaMemory(user: Word, prefix: Word) = "QUOTA User {} may not add to keys that begin with '{}', which take as much memory as they may";
    Oom = "OOM command not allowed when used memory > 'maxmemory'.";
    Loading = "LOADING Valkey is loading the dataset in memory";
    SaveFailed = "MISCONF Valkey is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Valkey logs for details about the RDB error.";
    AofFailed(reason: Word) = "MISCONF Errors writing to the AOF file: {}";
    TooFewReplicas = "NOREPLICAS Not enough good replicas to write.";
    ReadOnlyReplica = "READONLY You can't write against a read only replica.";
    NotFromPrimary(command: Word) = "ERR Command '{}' is not taken from a primary";
    PrimaryDown = "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";
    ScriptStale = "ERR Can not execute the command on a stale replica";
    Redirect(host: Word, port: Word) = "REDIRECT {}:{}";
    NoFailover = "ERR No failover in progress.";
    FailoverAsked =
        "ERR FAILOVER cannot be aborted: the replica was asked to take over, and its answer is on the way.";
    FailoverTimeout = "ERR FAILOVER timeout must be greater than 0";
    FailoverInProgress = "ERR FAILOVER already in progress.";
    FailoverOfReplica = "ERR FAILOVER is not valid when server is a replica.";
    FailoverAlone = "ERR FAILOVER requires connected replicas.";
    FailoverUnconfirmed = "ERR FAILOVER requires a server that may acknowledge: this one is unconfirmed.";
    FailoverForce = "ERR FAILOVER with force option requires both a timeout and target HOST and IP.";
    FailoverUnknown = "ERR FAILOVER target HOST and PORT is not a replica.";
    FailoverOffline = "ERR FAILOVER target replica is not online.";
    FailingOver = "ERR REPLICAOF not allowed while failing over.";
    SyncFailingOver = "NOMASTERLINK Can't SYNC while failing over";
    SyncWithoutLink = "NOMASTERLINK Can't SYNC while not connected with my master";
    NotAReplica = "ERR PSYNC FAILOVER can't be sent to a master.";
    OtherHistory = "ERR PSYNC FAILOVER replid must match my replid.";
    InvalidPrimaryPort = "ERR Invalid master port";
    UnblockedByRole = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";
    BusyScript = "BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
    BusyFunction = "BUSY Valkey is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";
    Subscribed(command: Word) = "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context";
    MonitorHasNoKeys = "ERR Replica can't interact with the keyspace";
    MonitorDenied = "ERR MONITOR isn't allowed for DENY BLOCKING client";

    // Transactions and waiting.
    NotInMulti(command: Word) = "ERR Command '{}' not allowed inside a transaction";
    DiscardWithoutMulti = "ERR DISCARD without MULTI";
    ExecWithoutMulti = "ERR EXEC without MULTI";
    ExecAbort = "EXECABORT Transaction discarded because of previous errors.";
    ExecRefused(reason: Word) = "EXECABORT Transaction discarded because of: {}";
    Unblocked = "UNBLOCKED client unblocked via CLIENT UNBLOCK";
    UnblockReason = "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR";
    WaitaofWithoutAof = "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";

    // Scripts and functions.
    NoScript = "NOSCRIPT No matching script.";
    NotFromScript = "ERR This Valkey command is not allowed from script";
    ScriptUnknownCommand = "ERR Unknown command called from script";
    ScriptWrongArity = "ERR Wrong number of args calling command from script";
    ScriptReadOnly = "ERR Write commands are not allowed from read-only scripts.";
    ScriptNoCommand = "ERR Please specify at least one argument for this call";
    ScriptArgument = "ERR Command arguments must be strings or integers";
    ScriptUndeclaredKey = "ERR Script touches a key that it was not given, while another one does";
    ScriptWritesInRo = "ERR Can not execute a script with write flag using *_ro command.";
    ScriptKilled = "ERR Script killed by user with SCRIPT KILL.";
    ScriptUserRemoved = "NOPERM The user of this script was removed while it ran.";
    FunctionKilled = "ERR Script killed by user with FUNCTION KILL.";
    NotBusy = "NOTBUSY No scripts in execution right now.";
    Unkillable = "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.";
    ScriptFailed(name: Word, text: Word) = "ERR Error running script {}, {}";
    ScriptNotCompiled(text: Word) = "ERR Error compiling script (new function): {}";
    NoInterpreter = "ERR The Lua interpreter could not be started";
    ScriptFlush = "ERR SCRIPT FLUSH only support SYNC|ASYNC option";
    ScriptDebugUse = "ERR Use SCRIPT DEBUG YES/SYNC/NO";
    ScriptDebugInPipeline = "ERR SCRIPT DEBUG must be called outside a pipeline";
    ScriptDebugInTransaction = "ERR A transaction runs no script that is debugged on a copy of the data";
    ScriptDebugTooLarge = "ERR There is too much data for a copy of it to debug on: use SCRIPT DEBUG SYNC";
    ScriptDebugEngine(engine: Word) = "ERR No scripting engine found with name '{}' to enable debug";
    EvalshaDebugged = "ERR Please use EVAL instead of EVALSHA for debugging";
    Shebang = "ERR Invalid script shebang";
    ShebangEngine = "ERR Invalid engine in script shebang";
    ShebangOption(option: Word) = "ERR Unknown lua shebang option: {}";
    ShebangFlag(flag: Word) = "ERR Unexpected flag in script shebang: {}";
    ShebangEngineUnknown(engine: Word) = "ERR Could not find scripting engine '{}'";
    NoSuchFunction = "ERR Function not found";
    NoSuchLibrary = "ERR Library not found";
    FunctionKeyCount = "ERR Bad number of keys provided";
    LibraryExists(name: Word) = "ERR Library '{}' already exists";
    LibraryExistsOnRestore(name: Word) = "ERR Library {} already exists";
    FunctionExists(name: Word) = "ERR Function {} already exists";
    FunctionTwice = "ERR Function already exists in the library";
    NoFunctions = "ERR No functions registered";
    FunctionName = "ERR Function names can only contain letters, numbers, or underscores(_) and must be at least one character long";
    LibraryNotCompiled(text: Word) = "ERR Error compiling function: {}";
    LibraryFailed(text: Word) = "ERR Error registering functions: {}";
    LibraryMetadataMissing = "ERR Missing library metadata";
    LibraryMetadata = "ERR Invalid library metadata";
    LibraryMetadataValue(value: Word) = "ERR Invalid metadata value given: {}";
    LibraryNameMissing = "ERR Library name was not given";
    LibraryNameTwice = "ERR Invalid metadata value, name argument was given multiple times";
    LibraryName = "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";
    LibraryEngine(engine: Word) = "ERR Engine '{}' not found";
    FunctionLoadOption(option: Word) = "ERR Unknown option given: {}";
    FunctionListArgument(word: Word) = "ERR Unknown argument {}";
    FunctionListNoName = "ERR library name argument was not given";
    FunctionFlush = "ERR FUNCTION FLUSH only supports SYNC|ASYNC option";
    FunctionRestorePolicy = "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.";
    FunctionRestoreType = "ERR given type is not a function";
    FunctionRestoreData = "ERR Failed loading library data";

    // Clients, tracking and the other server commands.
    NoSuchClient = "ERR No such client";
    NoSuchUser(name: Word) = "ERR No such user '{}'";
    UnknownClientType(name: Word) = "ERR Unknown client type '{}'";
    ClientName = "ERR Client names cannot contain spaces, newlines or special characters.";
    ClientInfo(option: Word) = "ERR {} cannot contain spaces, newlines or special characters.";
    ClientIdNotPositive = "ERR client-id should be greater than 0";
    FilterNotAnInteger(filter: &'static str) = "ERR {} is not an integer or out of range";
    FilterNotPositive(filter: &'static str) = "ERR {} should be greater than 0";
    FilterDb(filter: &'static str, last: Word) = "ERR {} number should be between 0 and {}";
    FilterLetters(letters: Word, filter: Word, given: Word) = "ERR Unknown {} found in the {} filter: {}";
    ClientPauseMode = "ERR CLIENT PAUSE mode must be WRITE or ALL";
    NotInImportMode = "ERR Server is not in import mode";
    NoClientLimit = "ERR maxmemory-clients is disabled.";
    RedirectTwice = "ERR A client can only redirect to a single other client";
    RedirectMissing = "ERR The client ID you want redirect to does not exist";
    PrefixWithoutBcast = "ERR PREFIX option requires BCAST mode to be enabled";
    PrefixOverlapsPresent(prefix: Word, other: Word) = "ERR Prefix '{}' overlaps with an existing prefix '{}'. Prefixes for a single client must not overlap.";
    PrefixOverlapsGiven(prefix: Word, other: Word) = "ERR Prefix '{}' overlaps with another provided prefix '{}'. Prefixes for a single client must not overlap.";
    BcastSwitch = "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.";
    BcastWithOpt = "ERR OPTIN and OPTOUT are not compatible with BCAST";
    OptinAndOptout = "ERR You can't specify both OPTIN mode and OPTOUT mode";
    OptSwitch = "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.";
    CachingWithoutOpt = "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled";
    CachingYesWithoutOptin = "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.";
    CachingNoWithoutOptout = "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.";
    CrossSlot = "CROSSSLOT Keys in request don't hash to the same slot";
    TryAgain = "TRYAGAIN Multiple keys request during rehashing of slot";
    ClusterDown = "CLUSTERDOWN The cluster is down";
    ClusterReadsOnly = "CLUSTERDOWN The cluster is down and only accepts read commands";
    SlotUnbound = "CLUSTERDOWN Hash slot not served";
    Moved(slot: Word, host: Word, port: Word) = "MOVED {} {}:{}";
    Ask(slot: Word, host: Word, port: Word) = "ASK {} {}:{}";
    BadSlot = "ERR Invalid or out of range slot";
    InvalidSlot = "ERR Invalid slot";
    InvalidSlotOrCount = "ERR Invalid slot or number of keys";
    ClusterScanCursor = "ERR Invalid cursor";
    ScanSlotTwice = "ERR SLOT option can only be specified once";
    ScanSlotMismatch = "ERR Cursor slot mismatch with SLOT argument";
    ScriptNoCluster = "ERR Can not run script on cluster, 'no-cluster' flag is set.";
    ScriptNotLocal = "ERR Attempted to access a non local key in a cluster node";
    ScriptCrossSlot = "ERR Script attempted to access keys that do not hash to the same slot";
    ScriptClusterDown(name: Word) = "ERR Can not execute a command '{}' while the cluster is down";
    ScriptClusterReadsOnly(name: Word) = "ERR Can not execute a write command '{}' while the cluster is down and readonly";
    SwapdbInCluster = "ERR SWAPDB is not allowed in cluster mode";
    ReplicaofInCluster = "ERR REPLICAOF not allowed in cluster mode.";
    FailoverInCluster = "ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead.";
    SortByInCluster = "ERR BY option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots.";
    SortGetInCluster = "ERR GET option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots.";
    SlotStatsRange(start: Word, end: Word) = "ERR Start slot number {} is greater than end slot number {}";
    SlotStatsMetric = "ERR Unrecognized sort metric for ORDERBY.";
    SlotStatsLimit = "ERR Limit has to lie in between 1 and 16384 (maximum number of slots).";
    SlotStatsTwice = "ERR Multiple filters of the same type are disallowed.";
    MissingTimeout = "ERR Missing timeout value";
    SetSlotWords = "ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP";
    InvalidBasePort(port: Word) = "ERR Invalid base port specified: {}";
    InvalidBusPort(port: Word) = "ERR Invalid bus port specified: {}";
    PortOutOfRange = "ERR Port number is out of range";
    BusPortOutOfRange = "ERR Cluster bus port number is out of range";
    DebugOfClusters = "ERR Debug option only available for cluster mode enabled setup!";
    LinksToMyself = "ERR Cannot free cluster link(s) to myself";
    UnknownDirection(word: Word) = "ERR Unknown direction {}";
    UnknownNode(id: Word) = "ERR Unknown node {}";
    NodeIsNoPrimary = "ERR The specified node is not a master";
    ClusterOrder(reason: Word) = "ERR {}";
    ClusterDisabled = "ERR This instance has cluster support disabled";
    InvalidCommand = "ERR Invalid command specified";
    CommandHasNoKeys = "ERR The command has no key arguments";
    CommandArity = "ERR Invalid number of arguments specified for command";
    CommandArguments = "ERR Invalid arguments specified for command";
    CommandlogType = "ERR type should be one of the following: slow, large-request, large-reply";
    NoLatencySamples(event: Word) = "ERR No samples available for event '{}'";
    UnknownDirective(name: Word) = "ERR Unknown option or number of arguments for CONFIG SET - '{}'";
    ConfigRefused(why: Word) = "ERR {}";
    ConfigNotRewritten(reason: Word) = "ERR Rewriting config file: {}";
    ModuleNotAllowed = "ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.";
    ModuleNotLoaded = "ERR Error loading the extension. Please check the server logs.";
    NoSuchModule = "ERR Error unloading module: no such module with that name";

    // Persistence.
    Failed = "ERR";
    NoAof = "ERR this server has no append only file";
    AofRewriteRunning = "ERR Background append only file rewriting already in progress";
    AofRewriteFailed = "ERR Can't execute an AOF background rewriting. Please check the server logs for more information.";
    SaveRunning = "ERR Background save already in progress";
    SaveNotRunning = "ERR Background saving is currently not in progress or scheduled";
    SaveDuringRewrite = "ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to schedule a BGSAVE whenever possible.";
    ShutdownFailover = "ERR SHUTDOWN FAILOVER is only supported in cluster mode.";
    NoShutdown = "ERR No shutdown in progress.";
    StrikeUnconfirmed = "ERR This server may lack acknowledged writes that the member has";
    StrikeUnknown = "ERR No such member is waited for (see in_sync_missing in INFO replication)";
    ShutdownFailed = "ERR Errors trying to SHUTDOWN. Check logs.";

    // DEBUG.
    DebugNotAllowed = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.";
    DebugProtocolType = "ERR Wrong protocol type name. Please use one of the following: string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false";
    DebugNotInResp2 = "ERR RESP2 is not supported by this command";
    DebugRestart = "ERR failed to restart the server. Check server logs.";
    DebugReloadOption = "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.";
    DebugSave = "ERR Error trying to save the DB, check server logs.";
    DebugLoad = "ERR Error trying to load the RDB dump, check server logs.";
    DebugLoadAof = "ERR Error trying to load the AOF files, check server logs.";
    DebugDbOutOfRange = "ERR Out of range database";
    DebugListpackSize = "ERR argument must be a memory value bigger than 1 and smaller than 4gb";
    NoHashTable = "ERR The value stored at the specified key is not represented using an hash table";
    NotAListpack = "ERR Not a listpack encoded object.";
    NotAQuicklist = "ERR Not a quicklist encoded object.";
    NotAnSds = "ERR Not an sds encoded string.";
    AllocatorNoEntry = "ERR No such file or directory";
    AllocatorNotPermitted = "ERR Operation not permitted";
    AllocatorArgument = "ERR Invalid argument";
}

impl Error {
    /// Whether the statistics of errors have counted it already.
    pub fn is_counted(&self) -> bool {
        matches!(self, Error::Script(_))
    }

    /// Whether it says that a command may run elsewhere, or why it runs nowhere in the cluster now: the command may be
    /// tried there or later, unchanged.
    pub fn says_where(&self) -> bool {
        use Error::{Ask, ClusterDown, ClusterReadsOnly, CrossSlot, Moved, Redirect, SlotUnbound, TryAgain};
        let is_sent_on = matches!(self, Redirect(..) | Moved(..) | Ask(..) | TryAgain);
        is_sent_on || matches!(self, CrossSlot | ClusterDown | ClusterReadsOnly | SlotUnbound)
    }
}

/// As a log shows it.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Some(text) => f.write_str(&String::from_utf8_lossy(&text)),
            None => f.write_str("to be run again"),
        }
    }
}

impl std::error::Error for Error {}

/// Returns a text with the parts in the places of its `{}`.
fn filled(text: &'static str, parts: &[&[u8]]) -> Cow<'static, [u8]> {
    if parts.is_empty() {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut out = Vec::with_capacity(text.len() + parts.iter().map(|part| part.len()).sum::<usize>());
    let mut parts = parts.iter();
    for (index, between) in text.split("{}").enumerate() {
        if index > 0 {
            out.extend_from_slice(parts.next().copied().unwrap_or_default());
        }
        out.extend_from_slice(between.as_bytes());
    }
    out.truncate(trimmed(&out).len());
    Cow::Owned(out)
}

/// Returns the text without the line ends at its end.
fn trimmed(mut text: &[u8]) -> &[u8] {
    while let [rest @ .., b'\r' | b'\n'] = text {
        text = rest;
    }
    text
}

/// A client's words in an error: bytes, because clients send bytes. In 8 bytes, so that results stay small.
#[derive(Clone)]
pub struct Word(ThinBytes);

impl Word {
    /// Makes a word of these bytes, as many as a block holds.
    #[cold]
    pub fn of(text: impl AsRef<[u8]>) -> Word {
        let text = text.as_ref();
        Word(ThinBytes::of(&text[..text.len().min(MAX - PREFIX)]))
    }

    /// Cuts a client's word as C does: clients know the texts of a peer that ends words at a zero byte.
    #[cold]
    pub fn up_to_nul(word: &[u8]) -> Word {
        Word::of(before_nul(word))
    }
}

/// Returns a word up to its first zero byte, as C shows it.
pub fn before_nul(word: &[u8]) -> &[u8] {
    word.split(|byte| *byte == 0).next().unwrap_or_default()
}

impl AsRef<[u8]> for Word {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes()[PREFIX..]
    }
}

impl PartialEq for Word {
    fn eq(&self, other: &Word) -> bool {
        self.as_ref() == other.as_ref()
    }
}

impl Eq for Word {}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(error: &Error) -> String {
        String::from_utf8_lossy(&error.text().unwrap_or_default()).into_owned()
    }

    #[test]
    fn texts_repeat_what_their_errors_carry() {
        assert_eq!(text(&Error::Syntax), "ERR syntax error");
        assert_eq!(text(&Error::WrongArity(Word::of("get"))), "ERR wrong number of arguments for 'get' command");
        let both = Error::NoKeyOrGroup(Word::of("{}"), Word::up_to_nul(b"g\0h"));
        assert_eq!(text(&both), "NOGROUP No such key '{}' or consumer group 'g'");
        assert_eq!(
            Error::UnsupportedOption(Word::of([0xff])).text().as_deref(),
            Some(&b"ERR Unsupported option \xff"[..])
        );
    }

    #[test]
    fn line_ends_at_the_end_are_left_out() {
        assert_eq!(text(&Error::Verbatim(Word::of("a\nb\r\n\n"))), "a\nb");
        assert_eq!(text(&Error::UnsupportedOption(Word::of("\r\n"))), "ERR Unsupported option ");
    }

    #[test]
    fn an_error_that_is_tried_again_has_no_text() {
        assert_eq!(Error::WouldBlock.text(), None);
        assert!(Error::Script(Word::of("x")).is_counted() && !Error::WouldBlock.is_counted());
    }

    #[test]
    fn a_result_is_small() {
        assert_eq!(size_of::<Result<(), Error>>(), 32);
    }
}
