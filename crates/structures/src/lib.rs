pub mod entry;
pub mod handle;
pub mod hashtable;
pub mod ranked_tree;
pub mod sorted_set;
