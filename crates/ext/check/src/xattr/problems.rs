//! Catalogue rows of `xattr`.

use fsmend_engine::problem_rows;

problem_rows! {}
