//! Scripts from files: `--eval`, and with `--ldb` a debugger for one.
//!
//! In: the file's name and the words of the command line. Out: an EVAL command, or a session that steps through it.

pub mod debug_session;
pub mod eval_file;
