//! `--eval`: a script from a file, with the words of the command line as its keys and, after a comma, its arguments.

use std::fs;

use crate::transport::reason;

/// Returns `EVAL script numkeys key ... argument ...`, or why the file cannot be read.
pub fn command(file: &str, words: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> {
    let script = fs::read(file).map_err(|error| format!("Can't open file '{file}': {}", reason(&error)))?;
    let (keys, arguments) = match words.iter().position(|word| word == b",") {
        Some(comma) => (&words[..comma], &words[comma + 1..]),
        None => (words, &[][..]),
    };
    let mut command = vec![b"EVAL".to_vec(), script, keys.len().to_string().into_bytes()];
    command.extend_from_slice(keys);
    command.extend_from_slice(arguments);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_stands_between_keys_and_arguments() {
        let path = std::env::temp_dir().join(format!("cinnabar-cli-eval-{}", std::process::id()));
        fs::write(&path, "return 1").unwrap();
        let file = path.to_str().unwrap();
        let words = |line: &str| resp::words::split(line.as_bytes()).unwrap();
        for (line, expected) in [
            ("a b , c ,", "EVAL 'return 1' 2 a b c ,"),
            ("a", "EVAL 'return 1' 1 a"),
            (", x", "EVAL 'return 1' 0 x"),
            ("", "EVAL 'return 1' 0"),
        ] {
            assert_eq!(command(file, &words(line)), Ok(words(expected)));
        }
        fs::remove_file(&path).unwrap();
        let expected = format!("Can't open file '{file}': No such file or directory");
        assert_eq!(command(file, &[]), Err(expected));
    }
}
