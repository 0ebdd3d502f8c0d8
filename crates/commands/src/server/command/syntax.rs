//! The notation in which an entry writes its arguments, and the tree that COMMAND DOCS makes of it.
//!
//! ```text
//! key value [condition: NX@2.6.12 | XX@2.6.12] [GET]@6.2.0 [LIMIT limit: offset:int count:int] (data: field value)...
//!
//! name                   an argument of type string; `key` alone is of type key
//! name:TYPE              of another type: int, double, pattern, time (an instant), key
//! name:TYPE2             that belongs to key specification 2; keys without a number count theirs from 0
//! name=text              shown as `text`
//! TOKEN                  a word to be typed as it is; "*" in quotes if it does not begin with a capital
//! TOKEN=name             called so; else it has the token in small letters for a name
//! TOKEN name             an argument after a word
//! (label: a b)           several arguments that belong together: a block
//! (label: a | b)         one of them
//! (TOKEN label: a b)     after a word
//! [a] [label: a b]       optional
//! a...                   may repeat, a word before it does not
//! [TOKEN a]+             may repeat, each with the word
//! a@6.2.0                since this version
//! a~6.2.0                deprecated since
//! a{Text.}               with a summary
//! ```
//!
//! Marks at the end stand in this order: `...` or `+`, `@`, `~`, `{}`. Whole commands are in `fixtures/docs.tsv`.

use resp::Reply;
use std::borrow::Cow;

/// One node of the tree.
#[derive(Debug, PartialEq, Eq)]
pub struct Argument<'s> {
    pub name: Cow<'s, str>,
    /// Text that people are shown in its place.
    pub display: Option<&'s str>,
    pub kind: Kind<'s>,
    pub token: Option<&'s str>,
    pub key_spec: Option<usize>,
    pub since: Option<&'s str>,
    pub deprecated_since: Option<&'s str>,
    pub summary: Option<&'s str>,
    pub optional: bool,
    pub repeats: bool,
    pub repeats_token: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Kind<'s> {
    /// A value, with the name of its type.
    Value(&'static str),
    Token,
    Block(Vec<Argument<'s>>),
    OneOf(Vec<Argument<'s>>),
}

/// The text is not in the notation, at this byte.
#[derive(Debug, PartialEq, Eq)]
pub struct MalformedSyntax(pub usize);

/// Reads an entry's arguments.
pub fn parse(syntax: &str) -> Result<Vec<Argument<'_>>, MalformedSyntax> {
    let mut parser = Parser { text: syntax, at: 0, keys: 0 };
    let (arguments, _) = parser.nodes()?;
    if parser.at == syntax.len() { Ok(arguments) } else { Err(MalformedSyntax(parser.at)) }
}

struct Parser<'s> {
    text: &'s str,
    at: usize,
    /// Number of key arguments so far.
    keys: usize,
}

impl<'s> Parser<'s> {
    /// Parses nodes up to a closing bracket or the end. Returns them, and whether they are alternatives.
    fn nodes(&mut self) -> Result<(Vec<Argument<'s>>, bool), MalformedSyntax> {
        let (mut nodes, mut alternatives) = (Vec::new(), false);
        loop {
            self.skip(b" ");
            match self.peek() {
                None | Some(b']' | b')') => return Ok((nodes, alternatives)),
                Some(b'|') => {
                    self.at += 1;
                    alternatives = true;
                }
                Some(_) => nodes.push(self.node()?),
            }
        }
    }

    fn node(&mut self) -> Result<Argument<'s>, MalformedSyntax> {
        let close = match self.peek() {
            Some(b'[') => Some(b']'),
            Some(b'(') => Some(b')'),
            _ => None,
        };
        let mut node = match close {
            None => self.core(false)?,
            Some(close) => {
                self.at += 1;
                let node = self.core(true)?;
                self.expect(close)?;
                node
            }
        };
        node.optional = close == Some(b']');
        self.marks(&mut node)?;
        Ok(node)
    }

    /// Parses a token, a value, or inside of brackets a group.
    fn core(&mut self, in_brackets: bool) -> Result<Argument<'s>, MalformedSyntax> {
        let token = self.token()?;
        if let Some(token) = token {
            match self.peek() {
                Some(b'=') => {
                    self.at += 1;
                    let name = self.word(NAME_ENDS)?;
                    return Ok(Argument::new(name.into(), Kind::Token, Some(token)));
                }
                // A value after a word that stands without brackets may be an argument of its own.
                Some(b' ') if in_brackets || self.value_follows() => self.at += 1,
                _ => return Ok(Argument::new(token.to_lowercase().into(), Kind::Token, Some(token))),
            }
        }
        let name = self.word(NAME_ENDS)?;
        if in_brackets && self.text[self.at..].starts_with(": ") {
            self.at += 1;
            let (nodes, alternatives) = self.nodes()?;
            let kind = if alternatives { Kind::OneOf(nodes) } else { Kind::Block(nodes) };
            return Ok(Argument::new(name.into(), kind, token));
        }
        self.value(name, token)
    }

    /// Parses the type and the shown text of a value.
    fn value(&mut self, name: &'s str, token: Option<&'s str>) -> Result<Argument<'s>, MalformedSyntax> {
        let mut node = Argument::new(name.into(), Kind::Value("string"), token);
        let mut kind = if name == "key" { "key" } else { "string" };
        if self.peek() == Some(b':') {
            self.at += 1;
            let word = self.word(NAME_ENDS)?;
            kind = word.trim_end_matches(|c: char| c.is_ascii_digit());
            node.key_spec = word[kind.len()..].parse().ok();
        }
        node.kind = Kind::Value(match kind {
            "string" => "string",
            "int" => "integer",
            "double" => "double",
            "pattern" => "pattern",
            "time" => "unix-time",
            "key" => "key",
            _ => return Err(MalformedSyntax(self.at)),
        });
        if kind == "key" {
            node.key_spec.get_or_insert(self.keys);
            self.keys += 1;
        }
        if self.peek() == Some(b'=') {
            self.at += 1;
            node.display = Some(self.word(TEXT_ENDS)?);
        }
        Ok(node)
    }

    /// Parses a word that is to be typed, if one is next.
    fn token(&mut self) -> Result<Option<&'s str>, MalformedSyntax> {
        match self.peek() {
            Some(b'"') => {
                let rest = &self.text[self.at + 1..];
                let len = rest.find('"').ok_or(MalformedSyntax(self.at))?;
                self.at += len + 2;
                Ok(Some(&rest[..len]))
            }
            Some(byte) if byte.is_ascii_uppercase() => self.word(NAME_ENDS).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns whether a value follows a word and a blank: it belongs to the word, as everything in small letters does.
    fn value_follows(&self) -> bool {
        self.text.as_bytes().get(self.at + 1).is_some_and(u8::is_ascii_lowercase)
    }

    fn marks(&mut self, node: &mut Argument<'s>) -> Result<(), MalformedSyntax> {
        if self.text[self.at..].starts_with("...") {
            self.at += 3;
            node.repeats = true;
        } else if self.peek() == Some(b'+') {
            self.at += 1;
            node.repeats = true;
            node.repeats_token = true;
        }
        if self.peek() == Some(b'@') {
            self.at += 1;
            node.since = Some(self.word(TEXT_ENDS)?);
        }
        if self.peek() == Some(b'~') {
            self.at += 1;
            node.deprecated_since = Some(self.word(TEXT_ENDS)?);
        }
        if self.peek() == Some(b'{') {
            self.at += 1;
            node.summary = Some(self.word(b"}")?);
            self.expect(b'}')?;
        }
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip(&mut self, bytes: &[u8]) {
        while self.peek().is_some_and(|byte| bytes.contains(&byte)) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), MalformedSyntax> {
        if self.peek() != Some(byte) {
            return Err(MalformedSyntax(self.at));
        }
        self.at += 1;
        Ok(())
    }

    /// Parses at least one byte, up to one of these or the end.
    fn word(&mut self, ends: &[u8]) -> Result<&'s str, MalformedSyntax> {
        let rest = &self.text[self.at..];
        let len = rest.bytes().position(|byte| ends.contains(&byte)).unwrap_or(rest.len());
        if len == 0 {
            return Err(MalformedSyntax(self.at));
        }
        self.at += len;
        Ok(&rest[..len])
    }
}

const NAME_ENDS: &[u8] = b" :=.+@~{])|";
/// Ends of a shown text or a version, which may contain colons and dots.
const TEXT_ENDS: &[u8] = b" ~{@])|+";

impl<'s> Argument<'s> {
    fn new(name: Cow<'s, str>, kind: Kind<'s>, token: Option<&'s str>) -> Self {
        Argument {
            name,
            display: None,
            kind,
            token,
            key_spec: None,
            since: None,
            deprecated_since: None,
            summary: None,
            optional: false,
            repeats: false,
            repeats_token: false,
        }
    }

    /// Writes the node as COMMAND DOCS shows it.
    pub fn write(&self, reply: &mut Reply) {
        let (kind, children) = match &self.kind {
            Kind::Value(name) => (*name, None),
            Kind::Token => ("pure-token", None),
            Kind::Block(children) => ("block", Some(children)),
            Kind::OneOf(children) => ("oneof", Some(children)),
        };
        let texts = [
            ("name", Some(&*self.name)),
            ("type", Some(kind)),
            ("display_text", children.is_none().then(|| self.display.unwrap_or(&self.name))),
        ];
        let more = [
            ("token", self.token),
            ("summary", self.summary),
            ("since", self.since),
            ("deprecated_since", self.deprecated_since),
        ];
        let flags = [("optional", self.optional), ("multiple", self.repeats), ("multiple_token", self.repeats_token)];
        let set = flags.iter().filter(|(_, set)| *set).count();
        let mut fields = texts.iter().chain(&more).filter(|(_, text)| text.is_some()).count();
        fields += usize::from(self.key_spec.is_some()) + usize::from(set > 0) + usize::from(children.is_some());
        reply.map(fields);
        write_texts(reply, &texts);
        if let Some(index) = self.key_spec {
            reply.bulk(b"key_spec_index");
            reply.int(index as i64);
        }
        write_texts(reply, &more);
        if set > 0 {
            reply.bulk(b"flags");
            reply.set(set);
            flags.iter().filter(|(_, set)| *set).for_each(|(name, _)| reply.simple(name));
        }
        if let Some(children) = children {
            reply.bulk(b"arguments");
            reply.array(children.len());
            children.iter().for_each(|child| child.write(reply));
        }
    }
}

/// Writes names and texts of the fields that are there.
pub fn write_texts(reply: &mut Reply, fields: &[(&str, Option<&str>)]) {
    for (name, text) in fields {
        if let Some(text) = text {
            reply.bulk(name.as_bytes());
            reply.bulk(text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(syntax: &str) -> Argument<'_> {
        let mut nodes = parse(syntax).unwrap();
        assert_eq!(nodes.len(), 1, "{syntax}");
        nodes.remove(0)
    }

    #[test]
    fn values_have_types_and_texts() {
        let node = one("[BY by-pattern:pattern1=ip:port]+@6.2.0~7.0.0{Text.}");
        assert_eq!((&*node.name, node.token, node.display), ("by-pattern", Some("BY"), Some("ip:port")));
        assert_eq!((node.kind, node.key_spec), (Kind::Value("pattern"), Some(1)));
        assert!(node.optional && node.repeats && node.repeats_token);
        let marks = (node.since, node.deprecated_since, node.summary);
        assert_eq!(marks, (Some("6.2.0"), Some("7.0.0"), Some("Text.")));
        let keys = parse("key newkey:key third:key0 key...").unwrap();
        assert_eq!(keys.iter().map(|node| node.key_spec).collect::<Vec<_>>(), [Some(0), Some(1), Some(0), Some(3)]);
        assert!(keys[3].repeats && !keys[3].repeats_token && !keys[3].optional);
    }

    #[test]
    fn words_stand_alone_or_before_something() {
        let nodes = parse("EX seconds:int NX [CH=change] \"*\"=any (unit: M | KM) AND [x]").unwrap();
        let shown: Vec<_> = nodes.iter().map(|node| (node.token, &*node.name)).collect();
        let tokens = [(Some("EX"), "seconds"), (Some("NX"), "nx"), (Some("CH"), "change"), (Some("*"), "any")];
        assert_eq!(shown[..4], tokens);
        assert_eq!(shown[4..], [(None, "unit"), (Some("AND"), "and"), (None, "x")]);
        assert!(matches!(&nodes[4].kind, Kind::OneOf(children) if children.len() == 2));
    }

    #[test]
    fn groups_nest() {
        let node = one("[operation: (GET get: encoding offset:int) | (write: [OVERFLOW over: WRAP | SAT] value)]...");
        assert!(node.optional && node.repeats);
        let Kind::OneOf(children) = node.kind else { panic!("alternatives") };
        assert!(matches!(&children[0].kind, Kind::Block(inner) if inner.len() == 2));
        assert_eq!((children[0].token, children[0].optional), (Some("GET"), false));
        let Kind::Block(write) = &children[1].kind else { panic!("a block") };
        assert_eq!((write[0].token, &*write[0].name), (Some("OVERFLOW"), "over"));
    }

    #[test]
    fn a_malformed_syntax_is_refused_at_its_place() {
        for (syntax, at) in [("[key", 4), ("key]", 3), ("a:nope", 6), ("\"x", 0), ("a@", 2), ("a{x", 3), ("(a: b]", 5)]
        {
            assert_eq!(parse(syntax), Err(MalformedSyntax(at)), "{syntax}");
        }
    }
}
