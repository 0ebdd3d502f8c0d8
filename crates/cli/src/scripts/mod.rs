//! Scripts from files: `--eval`, and with `--ldb` a debugger for one.
//!
//! The input is the file's name and the words of the command line, the output an EVAL command, or a session that steps
//! through the script.

pub mod debug_session;
pub mod eval_file;
