//! The identity of a directive, by which code refers to it.

/// A configuration directive: its position among all entries. Its constant is declared with its entry, and called like
/// the directive in upper case: `maxmemory-policy` is `Directive::MAXMEMORY_POLICY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Directive(u16);

impl Directive {
    pub(super) const fn at(position: u16) -> Directive {
        Directive(position)
    }

    /// Returns the position in every table that has one element a directive.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Declares the directives of an area: a constant of [`Directive`] for each, counted on `after` the area before, and
/// `ENTRIES` in the same order. The documentation of a constant is that of its entry.
macro_rules! directives {
    (after $first:expr; $($(#[doc = $line:literal])+ $name:ident = $entry:expr;)+) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "they are called like the directives")]
        enum Position {
            $($name),+
        }

        impl Directive {
            $($(#[doc = $line])* pub const $name: Directive = Directive::at($first + Position::$name as u16);)+
        }

        pub(super) const ENTRIES: &[DirectiveEntry] = &[$($entry.declared(Directive::$name, stringify!($name), &[$($line),*])),+];

        /// Position of the first directive of the next area.
        pub(super) const END: u16 = $first + ENTRIES.len() as u16;
    };
}

pub(super) use directives;
