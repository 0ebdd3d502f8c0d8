pub mod ranked_tree;
pub mod handle;
pub mod hashtable;
pub mod entry;
pub mod sorted_set;
