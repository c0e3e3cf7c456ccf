//! Catalogue rows of `inode`.

use fsmend_engine::problem_rows;

problem_rows! {}
