pub mod ranked_tree;
pub mod handle;
pub mod hashtable;
