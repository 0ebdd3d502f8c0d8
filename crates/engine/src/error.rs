//! What a command answers when it fails: every text that goes over the wire, in one place.
//!
//! The first word is the code that clients look at. Texts are those of Valkey, to the letter.

use std::borrow::Cow;
use std::fmt;

/// A command error, ready for the wire (without the leading `-`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    text: Cow<'static, [u8]>,
    /// It is in the statistics already.
    counted: bool,
}

impl Error {
    pub const fn text(text: &'static str) -> Self {
        Error { text: Cow::Borrowed(text.as_bytes()), counted: false }
    }

    /// Bytes, because errors repeat what the client sent; line ends at their end are left out.
    pub fn new(text: impl Into<Vec<u8>>) -> Self {
        let mut text = text.into();
        while text.ends_with(b"\n") || text.ends_with(b"\r") {
            text.pop();
        }
        Error { text: Cow::Owned(text), counted: false }
    }

    /// One that the statistics of errors know from where it was met first.
    pub fn counted(self) -> Self {
        Error { counted: true, ..self }
    }

    /// Nobody is told: the command waits for a lock that a long script has, has changed nothing, and is to be run again
    /// later.
    pub const NOT_NOW: Error = Error::text("NOTNOW");

    pub fn is_not_now(&self) -> bool {
        *self == Error::NOT_NOW
    }

    pub fn is_counted(&self) -> bool {
        self.counted
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }
}

impl AsRef<[u8]> for Error {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.text))
    }
}

impl std::error::Error for Error {}

macro_rules! texts {
    ($($name:ident = $text:literal;)*) => {
        impl Error {
            $(pub const $name: Error = Error::text($text);)*
        }
    };
}

texts! {
    WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value";
    SYNTAX = "ERR syntax error";
    NO_SUCH_KEY = "ERR no such key";
    NOT_AN_INTEGER = "ERR value is not an integer or out of range";
    NOT_A_FLOAT = "ERR value is not a valid float";
    MIN_OR_MAX_NOT_A_FLOAT = "ERR min or max is not a float";
    OUT_OF_RANGE = "ERR value is out of range";
    OUT_OF_RANGE_POSITIVE = "ERR value is out of range, must be positive";
    INDEX_OUT_OF_RANGE = "ERR index out of range";
    OVERFLOW = "ERR increment or decrement would overflow";
    NAN_OR_INFINITY = "ERR increment would produce NaN or Infinity";
    OFFSET_OUT_OF_RANGE = "ERR offset is out of range";
    STRING_TOO_LONG = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    BIT_OFFSET = "ERR bit offset is not an integer or out of range";
    BIT_VALUE = "ERR bit is not an integer or out of range";
    DB_INDEX = "ERR DB index is out of range";
    INVALID_DB_INDEX = "ERR invalid DB index";
    INVALID_FIRST_DB_INDEX = "ERR invalid first DB index";
    INVALID_SECOND_DB_INDEX = "ERR invalid second DB index";
    SAME_OBJECT = "ERR source and destination objects are the same";
    INVALID_CURSOR = "ERR invalid cursor";
    NOT_AN_INT32 = "ERR value is out of range, value must between -2147483648 and 2147483647";
    NOSCORES_WITHOUT_SORTED_SET = "ERR NOSCORES option can only be used in ZSCAN";
    NOVALUES_WITHOUT_HASH = "ERR NOVALUES option can only be used in HSCAN";
    EXPIRE_NX_CONFLICT = "ERR NX and XX, GT or LT options at the same time are not compatible";
    EXPIRE_GT_LT_CONFLICT = "ERR GT and LT options at the same time are not compatible";
    LFU_NOT_SELECTED = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.";
    LFU_SELECTED = "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.";
    OUT_OF_MEMORY = "OOM command not allowed when used memory > 'maxmemory'.";
    LOADING = "LOADING Valkey is loading the dataset in memory";
    SAVE_FAILED = "MISCONF Valkey is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Valkey logs for details about the RDB error.";
    SHORT_OF_REPLICAS = "NOREPLICAS Not enough good replicas to write.";
    NO_AUTH = "NOAUTH Authentication required.";
}

impl Error {
    pub fn wrong_arity(command: &str) -> Self {
        Error::new(format!("ERR wrong number of arguments for '{command}' command"))
    }

    pub fn unsupported_option(option: &[u8]) -> Self {
        Error::new([b"ERR Unsupported option ", up_to_nul(option)].concat())
    }

    pub fn unknown_type(name: &[u8]) -> Self {
        Error::new([b"ERR unknown type name '", up_to_nul(name), b"'"].concat())
    }

    pub fn invalid_expire(command: &str) -> Self {
        Error::new(format!("ERR invalid expire time in '{command}' command"))
    }
}

/// What an error repeats of a client's word: clients know the texts of a peer that ends words at a zero byte.
fn up_to_nul(word: &[u8]) -> &[u8] {
    word.split(|byte| *byte == 0).next().unwrap_or_default()
}
