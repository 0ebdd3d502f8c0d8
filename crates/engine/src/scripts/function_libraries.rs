//! Libraries of functions: their texts and the functions that these register, as all workers share them.
//!
//! A command that changes them has the right to any lock
//! ([`Keys::change_libraries`](crate::keyspace::keys::Keys::change_libraries)) until the change is in the log. One
//! command has it at a time, and a cut takes it, too: so the log has all changes in their order, and a cut has the
//! libraries of its moment.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A library of functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Its unique name.
    pub name: Box<[u8]>,
    /// Its text, as it was loaded.
    pub code: Box<[u8]>,
    /// Functions that the text registers.
    pub functions: Vec<Function>,
    /// Number that differs from every other library's, so that workers see that one was replaced.
    pub id: u64,
}

/// A function of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, by which FCALL calls it.
    pub name: Box<[u8]>,
    /// Description for FUNCTION LIST.
    pub description: Option<Box<[u8]>>,
    /// Flags that it declares; the commands know the bits.
    pub flags: u32,
}

/// All libraries.
#[derive(Clone, Debug, Default)]
pub struct Libraries {
    by_name: BTreeMap<Box<[u8]>, Arc<Library>>,
    /// Libraries by the names of their functions, in lower case: no two libraries have functions of one name.
    by_function: HashMap<Box<[u8]>, Arc<Library>>,
}

/// A change of the libraries.
#[derive(Debug, Default)]
pub struct LibraryChange {
    /// Whether all present libraries are removed.
    pub clear: bool,
    /// The library that is removed.
    pub remove: Option<Box<[u8]>>,
    /// Libraries that are added, in the place of the ones with their names.
    pub add: Vec<Arc<Library>>,
}

impl Libraries {
    /// Returns how many libraries there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns how many functions they have.
    pub fn functions(&self) -> usize {
        self.by_function.len()
    }

    /// Whether there is a library of this name.
    pub fn contains(&self, name: &[u8]) -> bool {
        self.by_name.contains_key(name)
    }

    /// Returns the libraries in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Library>> {
        self.by_name.values()
    }

    /// Returns the library that has this function, whose name may be in any case.
    pub fn with_function(&self, name: &[u8]) -> Option<&Arc<Library>> {
        self.by_function.get(&name.to_ascii_lowercase()[..])
    }

    /// Changes them.
    pub fn apply(&mut self, change: LibraryChange) {
        if change.clear {
            *self = Libraries::default();
        }
        if let Some(name) = change.remove {
            self.remove(&name);
        }
        change.add.into_iter().for_each(|library| self.put(library));
    }

    fn put(&mut self, library: Arc<Library>) {
        self.remove(&library.name);
        for function in &library.functions {
            self.by_function.insert(function.name.to_ascii_lowercase().into(), Arc::clone(&library));
        }
        self.by_name.insert(library.name.clone(), library);
    }

    fn remove(&mut self, name: &[u8]) {
        let Some(library) = self.by_name.remove(name) else { return };
        for function in &library.functions {
            self.by_function.remove(&function.name.to_ascii_lowercase()[..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(name: &[u8], functions: &[&[u8]]) -> Arc<Library> {
        let function = |name: &&[u8]| Function { name: (*name).into(), description: None, flags: 0 };
        let functions = functions.iter().map(function).collect();
        Arc::new(Library { name: name.into(), code: b"".as_slice().into(), functions, id: 1 })
    }

    #[test]
    fn a_library_is_found_by_its_functions_until_it_goes() {
        let mut libraries = Libraries::default();
        let add = |add| LibraryChange { add, ..LibraryChange::default() };
        libraries.apply(add(vec![library(b"a", &[b"One", b"two"]), library(b"b", &[b"three"])]));
        let owner = |libraries: &Libraries, name: &[u8]| libraries.with_function(name).map(|found| found.name.to_vec());
        assert_eq!(owner(&libraries, b"oNE").as_deref(), Some(&b"a"[..]));
        libraries.apply(add(vec![library(b"a", &[b"four"])]));
        assert_eq!((owner(&libraries, b"one"), libraries.len()), (None, 2));
        assert!(owner(&libraries, b"four").is_some() && owner(&libraries, b"three").is_some());
        libraries.apply(LibraryChange { remove: Some(b"b".as_slice().into()), ..LibraryChange::default() });
        assert!(owner(&libraries, b"three").is_none() && libraries.contains(b"a") && !libraries.contains(b"b"));
        libraries.apply(LibraryChange { clear: true, add: vec![library(b"c", &[b"one"])], ..LibraryChange::default() });
        assert_eq!(libraries.iter().map(|library| library.name.to_vec()).collect::<Vec<_>>(), [b"c".to_vec()]);
        assert!(owner(&libraries, b"four").is_none());
    }
}
